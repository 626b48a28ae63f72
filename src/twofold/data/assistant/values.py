"""What fills the slots: things of a home, people, titles, messages; and turns of phrase that carry times and dates.

In every list the common values come first: train gets the first 60 %, dev the next 15 %, test the last 25 %.
"""

from twofold.data.assistant import numbers
from twofold.data.grammar import Everyday, Lexicon, Made, Open, Shared, lines, words

ROOMS = """
kitchen, living room, bedroom, bathroom, hallway, dining room, office, garage, basement, kids' room, guest room,
study, entrance hall, laundry room, attic, nursery, playroom, gym, library, pantry, conservatory, workshop, sewing
room, cellar
"""
COLOURS = """
red, blue, green, warm white, yellow, purple, orange, pink, cold white, turquoise, violet, lime green, amber,
crimson, ocean blue, lavender, magenta, teal, soft gold, sunset orange
"""
DEVICES = """
fan, TV, coffee machine, dishwasher, washing machine, heater, air conditioner, kettle, humidifier, oven, printer,
router, tumble dryer, toaster, sprinkler, ceiling fan, rice cooker, electric blanket, air purifier, pool pump, slow
cooker, dehumidifier, projector, aquarium pump
"""
DOORS = """
front door, back door, garage door, garden gate, balcony door, patio door, main entrance, side door, cellar door,
shed, driveway gate, porch door
"""
CAMERAS = """
front door, driveway, garden, back yard, garage, gate, pool, side entrance, street, shed, carport, stable
"""
LISTS = """
shopping, grocery, to-do, packing, party, weekend, wish, birthday, hardware store, christmas, camping, pharmacy
"""
GENRES = """
jazz, rock, pop, classical, hip hop, reggae, country, folk, techno, blues, salsa, ambient, indie rock, soul, metal,
bossa nova, k-pop, swing, flamenco, afrobeat, lo-fi, bluegrass, bhangra, fado
"""
TOPICS = """
sports, politics, business, technology, science, travel, music, health, culture, football, climate, finance, cricket,
space, film, farming, cycling, chess
"""
LANGUAGES = """
spanish, french, german, italian, japanese, chinese, portuguese, arabic, russian, turkish, polish, hindi, dutch,
korean, greek, swedish, swahili, vietnamese, welsh, yoruba, finnish, tagalog, basque, icelandic
"""
TRANSPORT = ("car", "bike", "bus", "train", "tram")

CITIES = """
london, paris, berlin, new york, tokyo, madrid, rome, chicago, istanbul, mumbai, cairo, lagos, sydney, toronto,
vienna, São Paulo, seoul, nairobi, amsterdam, lisbon, boston, Zürich, hanoi, dublin, oslo, kyoto, warsaw, accra,
lima, prague, denver, Malmö, jakarta, Bogotá, naples, quebec, Kraków, tallinn, Reykjavík, addis ababa, samarkand,
valparaíso, tbilisi, porto alegre, ulaanbaatar, fort worth, galway, antananarivo
"""
PLACES = """
the airport, the train station, home, work, the nearest gas station, the city library, the hospital, grandma's
house, the central park, the nearest pharmacy, school, the stadium, the museum of modern art, 14 Mill Lane, the gym,
the harbour, the swimming pool, 221 Oak Street, the university, the dentist, the old town, Hauptstraße 9, the
botanical garden, the closest charging point, the zoo, 5 Rue du Moulin, the farmers' market, the ferry terminal, the
observatory, 77 Lakeshore Drive, the nearest bakery, the climbing hall
"""
CONTACTS = """
mom, dad, Anna, my wife, Omar, Mei Ling, grandma, José, Priya, uncle Bob, Fatima, Liam, my sister, Sofia, Kwame,
Yuki, Dr Patel, Lars, Chloé, my boss, Mohammed, Ines, Dmitri, Amara, Jack, aunt Rosa, Wei, Zeynep, Noah, Ngozi,
Marek, Emma Stone, Hiroshi Tanaka, Leila, Sven, the babysitter, Giulia, Tariq, Olga, Juan Carlos, Nia, Pierre
Dubois, Rania, Björn, Sanjay, the plumber, Katarzyna, Mateo, Aisha Bello, Thandiwe, Siobhán, my landlord, Nguyễn
Hoa, Łukasz, Oluwaseun, cousin Vera, Kenji, Søren Holm, Aoife, Ravi Shankaran, Mrs Okafor, Tamar, Juhani, the vet,
Lakshmi, Álvaro Núñez, 美咲, Дмитрий, Xiomara, Tjaard
"""
SONGS = """
Paper Lanterns, Slow River, Dancing Till Noon, Blue Bicycle, Hold the Rain, Midnight Kitchen, Golden Hour Blues, My
Name Is Tomorrow, Seven Bridges, Wild Apples, Letters to Nobody, Summer on the Roof, Electric Garden, Don't Wake the
Moon, Little Harbour, Stone and Feather, Running Home Again, Glass Mountain, A Thousand Doors, Cinnamon Sky, The
Last Train North, Broken Compass, Velvet Morning, Winter Postcard, Hey Marigold, Ghosts in the Garage, Silver
Thread, Under the Plane Trees, Copper Rain, Two Left Shoes, The Lighthouse Song, Mango Season, Nobody's Umbrella,
Quiet Thunder, Salt on My Tongue, Kites over Tallinn
"""
ARTISTS = """
The Velvet Foxes, Nora Lindqvist, Blue Harbour, Sam Okoro, The Midnight Bakers, Isla Moreno, Paper Tigers, DJ
Marmalade, Clara Voss, The Rusty Anchors, Tomás Rey, Electric Pigeons, Hana Sato, Old Town Brass, Leo Marchetti, The
Quiet Ones, Aya Benali, Stone Orchard, Mister Fennel, Ruby Castellan, Northern Lanterns, Jonah Whitlock, The Paper
Moons, Ada Kowalczyk, Salt and Cedar, Kofi Mensah Trio, Marigold Avenue, Ingrid Solheim
"""
PLAYLISTS = """
morning coffee, workout, dinner party, focus, road trip, sleep, sunday chill, running, study, kitchen disco, rainy
day, summer hits, deep work, yoga, family favourites, cleaning, throwback, slow evening, bath time, winter lights
"""
STATIONS = """
Radio One, Jazz FM, Classic Radio, City Radio, Radio Nova, Capital Sound, News Radio 24, Harbour FM, Radio Luna,
Green Valley Radio, Rock Antenna, Kanal Zwei, Bayside FM, Radio Sol, Metro Wave, North Coast Radio
"""
PODCASTS = """
Science Weekly, The Daily Kitchen, History at Night, Tech in Ten Minutes, Quiet Crimes, Garden Talk, Money Made
Simple, The Long Walk, Stars and Planets, Two Minute Myths, Good Neighbours, The Language Hour, Small Business
Stories, Bread and Butter, Voices of the Coast, The Chess Corner
"""
ITEMS = """
milk, eggs, bread, butter, coffee, apples, bananas, toilet paper, cheese, rice, chicken, tomatoes, olive oil, pasta,
yogurt, onions, dish soap, orange juice, sugar, potatoes, cat food, batteries, tea, oat milk, shampoo, light bulbs,
carrots, flour, paper towels, honey, salmon, garlic, toothpaste, basil, washing powder, ice cream, lemons, crackers,
sunscreen, peanut butter, cinnamon, tofu, mushrooms, bin bags, soy sauce, pomegranates, rye bread, coconut milk,
chickpeas, candles, baking paper, feta cheese, plasters, capers, tahini, sellotape
"""
EVENTS = """
dentist appointment, team meeting, lunch, dinner, yoga class, parent evening, job interview, haircut, football
practice, birthday party, doctor's appointment, piano lesson, date night, budget review, car service, gym session,
book club, school play, conference call, barbecue, eye test, wedding, driving lesson, vet visit, brunch, board
meeting, choir rehearsal, house viewing, piano recital, flu shot, chess tournament, pottery workshop
"""
TASKS = """
take out the trash
water the plants
pay the rent
pick up the kids
take my pills
feed the cat
buy flowers
charge the car
walk the dog
renew my passport
return the library books
call the bank
empty the dishwasher
book the train tickets
check the oven
send the invoice
defrost the chicken
clean the gutters
pay the electricity bill
bring an umbrella
pick up the dry cleaning
turn the compost
change the bed sheets
back up my laptop
iron a shirt
sign the school form
collect the parcel
hang up the washing
descale the kettle
cancel the gym membership
oil the squeaky hinge
repot the orchid
"""
NOTES = """
the wifi code is on the fridge
the plumber comes [tuesday|thursday]
ideas for the garden
we are low on printer ink
the spare key is under the pot
parking spot [B12|C7|42]
a book about bees
size [38|42|44] for the red shoes
the [blue|green] paint is called morning mist
the car needs new tyres
our neighbour's cat is called Biscuit
the meeting went well
try the soup place on the corner
locker number [17|203]
recipe with lentils and mint
gift idea for Sam is a telescope
the boiler was serviced in march
flight lands at terminal [2|5]
the alarm company's number is on the box
never buy that cheap tape again
the train leaves from platform [nine|four]
wine from the little shop was great
the dog weighs [11|14] kilos
"""
MESSAGES = """
i'm running late
i'll be home at [six|seven|eight]
dinner is ready
happy birthday
can you pick up the kids
see you tomorrow
i'm on my way
did you feed the dog
thanks for last night
the meeting is cancelled
call me when you can
i love you ❤️
do we need anything from the shop
i forgot my keys
good luck today
the train is late again
what time is the game
sorry i missed your call
we're out of coffee ☕
let's meet at the station
are you still awake
the package arrived
i'll bring dessert
please water my plants
you left your jacket here
congratulations on the new job 🎉
the key is under the mat
how was the exam
running ten minutes behind
get well soon
have a safe flight
i parked behind the bakery
the heating is broken again
no worries at all
save me a seat
"""
PHRASES = """
good morning
thank you very much
where is the train station
how much does this cost
i would like a coffee
see you tomorrow
my name is Alex
i am lost
happy birthday
a table for two
excuse me
where is the bathroom
the bill please
i don't understand
good night
how are you
i love this city
do you speak english
it is raining
nice to meet you
one ticket to the old town
cheers
i'm allergic to nuts
have a nice weekend
what time does it open
welcome home
can i pay by card
two tickets please
i miss you
is this seat free
"""
TIMERS = """
pasta, egg, tea, pizza, laundry, cake, nap, workout, rice, oven, homework, chicken, bread, meditation, potato, bath,
cookie, soup, dough, lasagne
"""
LEXICON = Lexicon(
    {
        "room": Everyday(words(ROOMS)),
        "color": Everyday(words(COLOURS)),
        "device": Everyday(words(DEVICES)),
        "door": Everyday(words(DOORS)),
        "camera": Everyday(words(CAMERAS)),
        "list": Everyday(words(LISTS)),
        "genre": Everyday(words(GENRES)),
        "topic": Everyday(words(TOPICS)),
        "language": Everyday(tuple(map(str.title, words(LANGUAGES)))),
        "length": Shared(("kilometers", "meters", "centimeters", "millimeters", "km", "cm")),
        "imperial_length": Shared(("miles", "feet", "inches", "yards")),
        "weight": Shared(("kilograms", "grams", "kilos", "kg")),
        "imperial_weight": Shared(("pounds", "ounces", "stone")),
        "volume": Shared(("liters", "milliliters", "deciliters")),
        "imperial_volume": Shared(("gallons", "cups", "pints", "tablespoons")),
        "heat": Shared(("degrees celsius", "celsius")),
        "imperial_heat": Shared(("degrees fahrenheit", "fahrenheit")),
        "transport": Shared(TRANSPORT),
        "city": Open(tuple(map(str.title, words(CITIES)))),
        "place": Open(words(PLACES)),
        "contact": Open(words(CONTACTS)),
        "song": Open(words(SONGS)),
        "artist": Open(words(ARTISTS)),
        "playlist": Open(words(PLAYLISTS)),
        "station": Open(words(STATIONS)),
        "podcast": Open(words(PODCASTS)),
        "item": Open(words(ITEMS)),
        "event": Open(words(EVENTS)),
        "task": Open(lines(TASKS)),
        "note": Open(lines(NOTES)),
        "message": Open(lines(MESSAGES)),
        "phrase": Open(lines(PHRASES)),
        "timer": Everyday(words(TIMERS)),
        "time": Made(numbers.time),
        "day": Made(numbers.day),
        "calendar_date": Made(numbers.calendar_date),
        "duration": Made(numbers.duration),
        "percent": Made(numbers.percent),
        "level": Made(numbers.level),
        "degrees": Made(numbers.degrees),
        "amount": Made(numbers.amount),
        "count": Made(numbers.count),
        "quantity": Made(numbers.quantity),
        "seconds": Made(numbers.seconds),
        "span": Made(numbers.span),
        # Turns of phrase. What they say is labelled inside of them.
        "on": Shared(("{date:day}", "on {date:calendar_date}")),
        "at": Shared(("at {time}", "at {time}", "<on>", "<on> at {time}", "at {time} <on>")),
        "clock": Shared(
            ("at {time}", "at {time}", "for {time}", "<on> at {time}", "for {time} <on>", "at {time} <on>")
        ),
        "goods": Shared(("{item}", "{item}", "{item}", "some {item}", "{quantity} of {item}", "{item} and {item}")),
    }
)
