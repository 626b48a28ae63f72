"""Goals about the home. A line is a command that polite forms go around; a line after "- " is said as it stands."""

HOME = {
    "lights_on": """
        [turn|switch] on the {room} [lights|light|lamp]
        [turn|switch] the [lights|light] on in the {room} (<at>)
        [turn|switch] the {room} [lights|light|lamp] on (<at>)
        [turn|switch] on [all the|the] lights (in the {room})
        put the [light|lights] on in the {room} (<at>)
        get the {room} [lamp|lights] on
        [brighten up|light up] the {room}(, it is dark in there)
        - {room} [lights|light|lamp] on (<at>)
        - lights on [in the|,] {room}
        - [it's|it is] [too|so] dark in the {room}
        - i can't see [anything|a thing] in the {room}
        - let there be light in the {room}
        - i need [some|more] light in the {room}
    """,
    "lights_off": """
        [turn|switch] off the {room} [lights|light|lamp]
        [turn|switch] the {room} [lights|light|lamp] off (<at>)
        [turn|switch] off the [lights|light] in the {room} (<at>)
        [turn|switch] the [lights|lamp] off in the {room}
        [kill|cut] the [lights|light] in the {room}
        shut off [all|] the lights (in the {room})
        put the {room} [lights|lamp] out (<at>)
        make it dark in the {room}
        - {room} [lights|light|lamp] off (<at>)
        - lights out [in the|,] {room}
        - no [more|] [light|lights] in the {room}
        - [nobody|no one] is in the {room}, [no need for lights|turn the lights off]
        - the {room} lights can [go|be turned] off (now)
    """,
    "lights_dim": """
        [dim|lower] the {room} [lights|light|lamp] to {brightness:percent}
        set the {room} [lights|light|lamp] to {brightness:percent}
        [dim|lower] the [lights|light] in the {room} to {brightness:percent}
        dim the [lights|light|lamp] (in the {room})
        bring the {room} [lamp|lights] down to {brightness:percent}
        make the light in the {room} [softer|dimmer|less bright]
        [change|set] the brightness [in|of] the {room} to {brightness:percent}
        [turn|dim] the {room} [lights|light] down a [bit|little]
        - {room} [lights|light|lamp] [at|to|] {brightness:percent}
        - brightness {brightness:percent} in the {room}
        - the {room} lights are [too|far too|a bit] bright
        - the {room} lamp should be at {brightness:percent}
    """,
    "lights_color": """
        make the {room} [lights|light|lamp] {color}
        [turn|switch] the {room} [lights|lamp] (to) {color}
        change the [lights|light|lamp] in the {room} to {color}
        set the {room} [lights|light|lamp] to {color}
        paint the {room} in {color} light
        [give|get] me {color} [light|lights] in the {room}
        [switch|change|set] the colour of the {room} lights to {color}
        - {room} [lights|light|lamp] {color}
        - {color} lights in the {room}
        - [i want|i'd like] the {room} [in|to be] {color}
        - {color} [mood|light|colours] in the {room}
        - can the [lights|lamps|light] in the {room} be {color}
    """,
    "heating_set": """
        [set|turn] the [heating|thermostat] (in the {room}) to {temperature:degrees}
        [set|change] the temperature in the {room} to {temperature:degrees} (<at>)
        [heat|warm] the {room} to {temperature:degrees}
        [put|set] the [thermostat|heating] (in the {room}) at {temperature:degrees}
        [change|set|bring] the {room} temperature to {temperature:degrees}
        bring the {room} to {temperature:degrees} by {time}
        [adjust|change] the [thermostat|heating] to {temperature:degrees} (<at>)
        keep the {room} at {temperature:degrees}
        - {room} {temperature:degrees}
        - [thermostat|temperature|heating] {temperature:degrees}
        - [i want|i'd like] it to be {temperature:degrees} in the {room}
        - [heating|thermostat] to {temperature:degrees} in the {room} (<at>)
        - the {room} should be [at|] {temperature:degrees} <at>
    """,
    "heating_up": """
        make [it|the {room}] (a bit) warmer
        make it (a bit) warmer in the {room}
        [turn|put] up the [heating|heat] (in the {room})
        [raise|turn up] the temperature in the {room} (a bit)
        [turn|put] the [heating|heat|radiators] up in the {room}
        [warm|heat] up the {room} (a little)
        give the {room} [a bit|] more [heat|warmth]
        - it's [freezing|cold|too cold|chilly|freezing cold] in the {room}
        - [i'm|we're] [cold|freezing] in the {room}
        - (a bit) warmer in the {room}
        - {room} [heating|heat] up
        - [my feet|my hands] are [freezing|cold] in [here|the {room}]
        - the {room} [could|should] be [warmer|a bit warmer]
    """,
    "heating_down": """
        make [it|the {room}] (a bit) [cooler|colder]
        make it [cooler|colder] in the {room}
        [turn|put] down the [heating|heat] (in the {room})
        [lower|turn down] the temperature in the {room} (a bit)
        [turn|put] the [heating|heat|radiators] down in the {room}
        [cool the {room} down|cool down the {room}] (a little)
        give the {room} [a bit|] less [heat|warmth]
        - it's [boiling|too hot|too warm|boiling hot|stuffy and hot] in the {room}
        - [i'm|we're] [sweating|melting] in the {room}
        - (a bit) cooler in the {room}
        - {room} [heating|heat] down
        - [we are|i am] [melting|sweating] in [here|the {room}]
        - the {room} is [far|much|] too [warm|hot]
    """,
    "blinds_open": """
        open the [blinds|shades|shutters|curtains] (in the {room})
        open the {room} [blinds|curtains|shutters] (<at>)
        raise the [blinds|shades|shutters] in the {room} (<at>)
        pull up the {room} [shades|blinds]
        [roll|pull] up the [shutters|blinds] (in the {room})
        draw back the curtains in the {room} (<at>)
        let (some) [daylight|sun|sunlight] into the {room}
        get the {room} [shutters|blinds] up
        - {room} [blinds|shades|shutters] [up|open]
        - [blinds|curtains] [open|up] in the {room}
        - [curtains|blinds] open (in the {room}) <at>
        - [i want|i'd like] [to see the sun|more sun|some daylight] in the {room}
    """,
    "blinds_close": """
        close the [blinds|shades|shutters|curtains] (in the {room})
        [close|shut] the {room} [blinds|curtains|shutters] (<at>)
        lower the [blinds|shades|shutters] in the {room} (<at>)
        pull down the {room} [shades|blinds]
        [let|pull] down the [shutters|blinds] (in the {room})
        draw the curtains in the {room} (<at>)
        shut the [curtains|blinds|shutters] (in the {room})
        get the {room} [shutters|blinds] down
        - {room} [blinds|shades|shutters] [down|closed]
        - [blinds|curtains] [closed|shut|down] in the {room}
        - [curtains|blinds] [shut|closed] (in the {room}) <at>
        - [the sun is blinding me|there is too much sun|keep the sun out] in the {room}
    """,
    "device_on": """
        [turn|switch] on the {device} (in the {room})
        [turn|switch] the {device} on (<at>)
        [turn|switch] on (the) {device} <at>
        [turn|switch] the {device} on in the {room}
        [start|run] the {device} (<at>)
        get the {device} [going|running|started] (<at>)
        power [up|on] the {device} (in the {room})
        fire up the {device} (in the {room})
        [run|start] the {device} for {duration}
        - [the|] {device} on (please)
        - {device} on <at>
        - i [need|want] the {device} [running|on] <at>
        - the {device} should be [on|running] (<at>)
    """,
    "device_off": """
        [turn|switch] off the {device} (in the {room})
        [turn|switch] the {device} off (<at>)
        [turn|switch] off (the) {device} <at>
        [turn|switch] the {device} off in the {room}
        [stop|shut off] the {device} (<at>)
        shut [down|off] the {device} (in the {room})
        power [down|off] the {device} (in the {room})
        cut (the) power to the {device} (<at>)
        [turn off|shut down|unplug] the {device} in {duration}
        - [the|] {device} off (please)
        - {device} off <at>
        - i don't need the {device} [running|on] any more
        - the {device} can [go|be turned|be switched] off in {duration}
    """,
    "vacuum_start": """
        [vacuum|hoover] the {room} (<at>)
        start the [vacuum|hoover|robot] (in the {room})
        send the [robot|vacuum] to clean the {room}
        start the [vacuum|robot|robot vacuum|hoover] <at>
        [vacuum|clean] the {room} (<at>)
        [clean|vacuum|sweep] the [floor|floors] in the {room} (<at>)
        have the [robot|vacuum] [sweep|clean] the {room}
        let the [vacuum|robot] loose in the {room}
        - robot, [clean|vacuum|sweep] the {room}
        - [vacuum|hoover] on in the {room}
        - there are [crumbs|dust balls] [all over|everywhere in] the {room}
        - the {room} floor is [dirty|dusty|full of crumbs]
    """,
    "vacuum_stop": """
        [stop|pause] the [vacuum|robot|hoover] (in the {room})
        [stop|pause|turn off] the robot vacuum
        send the [vacuum|robot|hoover] [home|back to its dock|back to its base]
        pause the [hoover|vacuum|robot] (for {duration})
        stop [vacuuming|cleaning|hoovering] (the {room})
        tell the robot to stop [cleaning|vacuuming] (the {room})
        dock the [robot|vacuum]
        get the robot out of the {room}
        - [vacuum|hoover|robot] off
        - [vacuum|robot], stop
        - robot, go [home|back to your dock]
        - enough [vacuuming|hoovering|cleaning] (in the {room})
        - that robot is too [noisy|loud], [stop it|send it home]
    """,
    "door_lock": """
        [lock|bolt|secure] the {door} (<at>)
        lock (up) the {door}
        [make sure|check that|see that] the {door} is locked (<at>)
        put the [lock|bolt] on the {door}
        - {door} [lock|locked] (please)
        - lock {door} (<at>)
        - [nobody|no one] should [get|come] in through the {door}
        - i forgot to [lock|close and lock] the {door}
    """,
    "door_unlock": """
        [unlock|unbolt] the {door} (<at>)
        open the [lock|bolt] of the {door}
        let {contact} [in|come in] through the {door}
        [release|unlock] the {door} (now)
        take the [lock|bolt] off the {door}
        [unlock|open] the {door} for {contact}
        - {door} [unlock|unlocked] (please)
        - unlock {door} (<at>)
        - {contact} is at the {door}, [let them in|open up]
        - i'm [outside|home|back], [open up|open|unlock] the {door}
        - the {door} can be [unlocked|opened] (now)
    """,
    "camera_show": """
        [show me|let me see|open] the {camera} [camera|cam]
        [pull|bring] up the {camera} [camera|cam|video]
        [put|show] the {camera} [camera|cam|video] on the [screen|TV]
        [display|show me] the {camera} [feed|video]
        [bring up|show] the [video|picture] from the {camera}
        - {camera} [camera|video]
        - {camera} cam please
        - [who|what] is by the {camera}
        - what is [going on|happening] by the {camera}
        - is [anyone|anybody|someone] [near|by] the {camera}
    """,
}
