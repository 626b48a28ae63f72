"""Goals about the world outside: weather, ways, languages, units, news. Lines as in `home`."""

WORLD = {
    "weather_ask": """
        [tell|show|give] me the [weather|forecast] in {city} (<on>)
        [give|show] me the [forecast|weather] for {city} (<on>)
        [check|look up] the [weather|forecast] (in {city}) <on>
        [look up|find] the [forecast|weather] <on> in {city}
        [find out|tell me|check] if it will [rain|snow] in {city} <on>
        - [what's the weather like|what is the weather|how's the weather] in {city} (<on>)
        - [weather|forecast] in {city} (<on>)
        - {city} [weather|forecast] <on>
        - will it [rain|snow|be sunny] <on>
        - [do|will] i need [an umbrella|a coat|a jacket] (in {city}) <on>
        - how [cold|hot|warm] [is it|will it be] in {city}
        - is it going to [rain|snow|freeze] in {city} <on>
        - what [should|can] i wear in {city} <on>
        - how many degrees [will it be|is it] in {city} <on>
    """,
    "time_ask": """
        [tell|give] me the [time|date] in {city}
        [give|tell] me the [current|exact|local] time (in {city})
        [check|tell me] what time it is in {city}
        [tell|give] me today's date
        [look up|check] the [local|current] time in {city}
        - what time is it (now) (in {city})
        - [what's|what is] the [time|local time|current time] (in {city})
        - [time|local time|current time] in {city}
        - what [day|date] is it (today)
        - how late is it (in {city}) (now)
        - is it [already|still] [midnight|morning|noon|daytime] in {city}
        - [do you have|have you got] the [time|date]
        - [current|today's] date in {city}
    """,
    "navigate": """
        [take|bring|drive] me to {place} (by {transport})
        [navigate|guide me] to {place}
        [give|show] me [directions|the way|the route] to {place} (by {transport})
        [show|tell] me the [way|route] to {place}
        [find|show me|take] the [fastest|shortest|quickest] [route|way] to {place}
        [guide|lead] me to {place} by {transport}
        start [navigation|navigating] to {place}
        [lead|guide|take] me from {origin:place} to {place}
        - how [do|can] i get to {place} (by {transport})
        - [directions|the way] to {place}
        - route to {place} by {transport}
        - i [want|need|have] to [go|get] to {place}
        - which way [to|is it to] {place}
        - where is {place}
        - [fastest|shortest|quickest] [way|route] from {origin:place} to {place}
    """,
    "traffic_ask": """
        tell me how [the traffic is|bad the traffic is] on the way to {place}
        [check|show me] the traffic [to|on the way to] {place}
        [show|tell] me the traffic [near|around] {place}
        [look|check] for [delays|jams|traffic] on the way to {place}
        [warn|tell] me about [jams|delays|accidents] on the road to {place}
        - [how's|how is] the traffic [to|near|around] {place}
        - traffic [in|around] {city}
        - is there [a jam|much traffic|a delay] on the way to {place}
        - how long [does it take|will it take me] to {place} by {transport}
        - how long will i need to {place} [right now|in this traffic|by {transport}]
        - are there any [delays|jams|accidents] [to|on the way to] {place} <on>
        - any [accidents|jams|delays] [near|around] {place}
        - [are the|] roads to {place} [clear|blocked|free]
    """,
    "translate": """
        translate [the words|the phrase|] {phrase} to {language}
        [translate|put|turn] {phrase} into {language}
        say {phrase} in {language}
        [tell|show] me how to say {phrase} in {language}
        [give|tell] me the {language} [for|word for] {phrase}
        - how [do|would] [you|i] say {phrase} in {language}
        - [what is|what's] {phrase} in {language}
        - {language} [for|translation of] {phrase}
        - {phrase} [in|translated to] {language}
        - what's the {language} [word|translation|expression] for {phrase}
        - how would a {language} [speaker|person] say {phrase}
    """,
    "news_play": """
        [play|read|show] (me) the {topic} news
        [read|tell] me the [latest|newest] {topic} news
        give me the [latest|newest|] {topic} headlines
        tell me [what's|what is] new in {topic}
        [catch me up|bring me up to date] on {topic} (news)
        [show|read|give] me today's [headlines|news]
        read (me) the [headlines|news] about {topic}
        - [what's|what is] in the [news|headlines] (today)
        - {topic} [news|headlines]
        - any [news|headlines] [about|from] {topic}
        - [what happened|what's new] in the world of {topic} <on>
        - [latest|latest news|news] on {topic}
        - [headlines|news|the news] please
    """,
}

# {from_unit} and {to_unit} become units of one dimension, the one metric, the other not.
CONVERT = """
    [convert|change] {amount} {from_unit} to {to_unit}
    [turn|convert] {amount} {from_unit} into {to_unit}
    [tell|show] me how many {to_unit} are in {amount} {from_unit}
    [work out|calculate] {amount} {from_unit} in {to_unit}
    [give|tell] me {amount} {from_unit} in {to_unit}
    - how many {to_unit} [are|are in|make] {amount} {from_unit}
    - {amount} {from_unit} in {to_unit}
    - [what is|what's|what are] {amount} {from_unit} in {to_unit}
    - how much [is|are] {amount} {from_unit} in {to_unit}
    - {amount} {from_unit} [equals|is] how many {to_unit}
    - {from_unit} to {to_unit}, {amount}
"""


def conversions() -> str:
    """The templates of unit conversion, each as a choice of dimension and direction."""
    units = [
        pair
        for dimension in ("length", "weight", "volume", "heat")
        for pair in ((dimension, f"imperial_{dimension}"), (f"imperial_{dimension}", dimension))
    ]
    made = []
    for line in CONVERT.strip().splitlines():
        dash, command = ("- ", line.strip()[2:]) if line.strip().startswith("- ") else ("", line.strip())
        options = [
            command.replace("{from_unit}", f"{{from_unit:{one}}}").replace("{to_unit}", f"{{to_unit:{other}}}")
            for one, other in units
        ]
        made.append(f"{dash}[{'|'.join(options)}]")
    return "\n".join(made)


WORLD["convert_units"] = conversions()
