"""The mood of a short message: six moods, wordings that train lacks in test, and words that several moods share."""

from random import Random

from twofold.data.drawing import draw_splits
from twofold.data.examples import Labelled, Splits
from twofold.data.grammar import Lexicon, Open, Shared, lines, portion, shuffled, wordings, words
from twofold.data.speech import written

MOODS = {
    "joy": """
        [i'm|i am] so [happy|glad] about <thing>(!)
        <thing> [was|is] [wonderful|fantastic|not bad at all|better than i hoped]
        [best day ever|what a day]: <thing> [worked out|went well]
        i can't stop smiling since <thing>
        [we|they] loved <thing>, [it was great fun|everybody laughed]
        [good|great|lovely] news about <thing>
        finally <thing>, i could [sing|dance]
    """,
    "sadness": """
        [i'm|i am] so [sad|down] about <thing>
        i [cried|had to cry] because of <thing>
        <thing> [was|is] not the same without you
        i miss <thing> [a lot|very much|more than i say]
        [it's a pity|such a shame] about <thing>
        i had hoped for more than <thing>
        [nobody|no one] came to <thing>, it was lonely
    """,
    "anger": """
        [i'm|i am] [furious|so angry] about <thing>
        <thing> is [an outrage|a bad joke|not acceptable]
        i've had enough of <thing>
        who is responsible for <thing>? [this is ridiculous|i want an answer]
        never again <thing>, [i mean it|what a mess]
        stop [lying|talking] to me about <thing>
        [they|you] ruined <thing> [again|once more]
    """,
    "worry": """
        [i'm|i am] [worried|nervous] about <thing>
        i hope <thing> [goes well|will be fine], i can't sleep
        what if <thing> goes wrong
        i [don't know|am not sure] if <thing> is safe
        <thing> [scares me|makes me nervous]
        do you think <thing> will be all right
        my hands shake when i think of <thing>
    """,
    "thanks": """
        thank you [so much|] for <thing>
        [many|a thousand] thanks for <thing>
        i [really|] appreciate <thing>, [you are kind|thanks]
        without your help <thing> would not have worked
        [i owe you one|you saved me] with <thing>
        how kind of you to think of <thing>
        i'm grateful for <thing>
    """,
    "boredom": """
        <thing> is [so boring|as dull as ever]
        i [almost|nearly] fell asleep during <thing>
        nothing happens here except <thing>
        [again|once more] <thing>, i could yawn
        is <thing> over yet
        i'd rather watch paint dry than <thing>
        there is nothing new about <thing>
    """,
}
THINGS = """
the trip, the meeting, my exam, the party, your letter, the new job, the concert, the game, the move, dinner with Ann,
the wedding, the interview, the holiday, the present, the school play, the result, the film, the repair, the long drive,
the family visit, the lecture, the new flat, the test drive, the surgery, the picnic, the neighbours' dog, the speech,
the trial lesson
"""
LEXICON = Lexicon(
    {"thing": Open(words(THINGS)), "end": Shared(("", "", " today", " this time", ", really", ", you know"))}
)


def moods(seed: int = 0, train: int = 2400, dev: int = 300, test: int = 500) -> Splits[Labelled]:
    """Messages, every mood equally common."""
    names = list(MOODS)
    said = {mood: shuffled([w for line in lines(MOODS[mood]) for w in wordings(line)]) for mood in names}

    def make(split: str, place: int, rng: Random) -> Labelled:
        mood = names[place % len(names)]
        template = rng.choice(portion(said[mood], split))
        return Labelled(written(LEXICON.say(f"{template}<end>", rng, split), rng).text, mood)

    return draw_splits("classification", seed, (train, dev, test), make, lambda message: message.text)
