"""What the assistant cannot do: sentences out of scope, in families, some of which train never has."""

from twofold.data.grammar import Lexicon, Open, Shared, words

# Families every split has, with templates of their own in each.
KNOWN = {
    "knowledge": """
        who [invented|discovered|built] the <thing>
        when was the <thing> invented
        how does a <thing> work
        why do <animal>s [sleep|sing|migrate]
        how old can a <animal> get
        what do <animal>s eat
        what is the capital of <country>
        how many people live in <country>
        which is the [longest|deepest] river in <country>
        tell me something about <country>
        explain how a <thing> is made
        is a <animal> smarter than a <animal>
        who was the first president of <country>
        what does a <animal> sound like
    """,
    "chat": """
        how are you (today)
        do you [like|love|hate] <animal>s
        what's your favourite [colour|film|animal|season]
        are you a [robot|person|real human]
        where do you live
        do you ever get [bored|tired|lonely]
        who made you
        you are [funny|great|useless|my best friend]
        i think you're [wrong|lovely|a bit slow]
        what do you think about <animal>s
        can you [sing|dream|dance|lie]
        tell me a joke about <animal>s
        do you know any good stories about a <animal>
        are we friends
    """,
    "story": """
        my <relative> bought a new <thing>
        i saw a <animal> in the park yesterday
        we went to <country> last summer
        my <relative> used to have a <animal>
        the <thing> was a present from my <relative>
        last night i dreamt of a <animal>
        our neighbours are moving to <country>
        the lights at the theatre were beautiful
        that song reminds me of <country>
        i had a long day at work
        my <relative> never listens to me
        the weather was lovely when we visited <country>
        my <relative> is afraid of <animal>s
    """,
    "services": """
        order [a pizza|some sushi|a curry] for <people>
        book a table for <people> at the Italian place
        get me a taxi to the opera
        buy <people> tickets for the <animal> show
        book a flight to <country>
        find a hotel in <country> for <people>
        rent a [car|van|boat] for the weekend
        order a new <thing> online
        reserve two seats on the night train to <country>
        renew my subscription
        send flowers to my <relative>
        sell my old <thing>
        return the <thing> i ordered
    """,
    "money": """
        what's my bank balance
        transfer [fifty|200|a hundred] [euros|dollars] to my <relative>
        how much did i spend on food last month
        pay my credit card bill
        is the <thing> company stock going up
        freeze my credit card
        what is the exchange rate in <country>
        how much tax do i pay in <country>
        can i afford a new <thing>
        open a savings account
        what's the interest rate on my loan
        did my <relative> pay me back
    """,
    "broken": """
        [uh|um|er], never mind
        the the the
        no wait
        i mean the <thing>
        what i wanted to say was
        [hello|hey|hi] (hello)
        ok then
        nothing, sorry
        a <thing> and a <animal>
        [yes|no|maybe]
        and then <animal>
        forget what i said
        hmm <thing>
    """,
}
# Families that train never has.
DEV_ONLY = {
    "cooking": """
        how long do i boil <people> eggs
        what can i cook with [leeks|lentils|leftover rice]
        how much salt goes into the dough
        is it safe to eat raw [fish|mushrooms|eggs]
        give me a recipe for [onion soup|apple pie|pancakes]
        how do i keep [herbs|bread|avocados] fresh
    """,
    "sport": """
        who won the [match|final|race] last night
        when do the <animal>s play again
        how tall is the goalkeeper of <country>
        is <country> through to the next round
        what are the rules of [curling|rugby|darts]
        which team has the most titles
    """,
}
TEST_ONLY = {
    "health": """
        my [head|back|knee] hurts
        how many steps did i walk today
        what helps against a sore throat
        how much water should <people> drink
        am i getting enough sleep
        is it dangerous to swallow a seed
        log my weight
    """,
    "learning": """
        help me with my [maths|history|chemistry] homework
        what is the square root of [81|1024|two]
        how do you spell necessary
        what rhymes with <thing>
        quiz me on the rivers of <country>
        who wrote the book about the <animal>
        what is seventeen times four
    """,
    "travel": """
        do i need a visa for <country>
        is my flight delayed
        how many bags may i bring on board
        what's my seat number
        which vaccinations do i need for <country>
        can i bring my <animal> on the plane
        check me in for my flight to <country>
    """,
    "gadgets": """
        how much battery do you have left
        update your software
        why is the internet so slow
        change the wifi password
        print the last page twice
        uninstall that game
        scan this document for my <relative>
    """,
    "near": """
        are light bulbs made of glass
        which room has the best light
        who composed the music for that film
        how is a blind person able to read
        is it bad to wake a sleepwalker
        why is the news always so sad
        what is the loudest <animal> in the world
        my alarm clock is from <country>
        when was the first telephone call made
    """,
}

THINGS = """
telescope, bicycle, violin, compass, microscope, piano, steam engine, zip fastener, lighthouse, typewriter, parachute,
umbrella, windmill, submarine, saxophone, hammock, sundial, harp, kaleidoscope, abacus
"""
ANIMALS = """
dog, cat, whale, owl, elephant, horse, penguin, spider, dolphin, tiger, rabbit, turtle, eagle, hedgehog, llama, octopus,
badger, flamingo, lobster, heron
"""
COUNTRIES = """
france, japan, brazil, kenya, canada, india, norway, egypt, mexico, poland, vietnam, chile, iceland, ghana, portugal,
mongolia, jamaica, nepal, estonia, uruguay
"""
RELATIVES = ("brother", "mother", "cousin", "neighbour", "uncle", "daughter", "colleague", "nephew", "grandfather")

OUTSIDE_LEXICON = Lexicon(
    {
        "thing": Open(words(THINGS)),
        "animal": Open(words(ANIMALS)),
        "country": Open(tuple(map(str.title, words(COUNTRIES)))),
        "lead": Shared(("", "", "", "", "hey,", "ok,", "so,", "well,", "please,", "listen,")),
        "relative": Shared(RELATIVES),
        "people": Shared(("two", "three", "four", "five", "6", "8", "ten")),
    }
)
