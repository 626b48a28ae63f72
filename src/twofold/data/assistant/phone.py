"""Goals about people, time, lists and notes. Lines as in `home`."""

PHONE = {
    "call_start": """
        [call|ring|phone] {contact} (now)
        [call|ring] {contact} on [speaker|video]
        [ring|call|phone] {contact} <at>
        give {contact} a [call|ring] (<at>)
        [dial|call] {contact}
        get {contact} on the [phone|line]
        [make|place] a (phone) call to {contact}
        [start|make] a [video|phone] call with {contact}
        - i [need|have] to [talk|speak] to {contact}
        - i [want|would like] to [talk|speak] to {contact} <at>
        - {contact} on the phone please
        - [connect me|put me through|get me on the phone] with {contact}
        - is {contact} [reachable|home], [try calling|give them a call]
    """,
    "call_end": """
        hang up [now|the phone|]
        [end|stop|finish] [the|this] [call|phone call] (with {contact})
        hang up on {contact}
        [disconnect|end] [the|this] [call|phone call]
        [finish|end] the [call|phone call] with {contact}
        [drop|end] the call (with {contact})
        [stop|end] the video call (with {contact})
        - [call|phone call] over
        - bye {contact}, [hang up|end the call] now
        - i'm [done|finished] talking to {contact}
        - that's it, [end the phone call|hang up]
        - we're [finished|done] on the phone(, hang up)
    """,
    "message_send": """
        send {contact} a [message|text] [saying|that says] {message}
        [text|message] {contact} {message}
        tell {contact} (that) {message}
        [message|text] {contact} that {message}
        send a [text|message] to {contact}: {message}
        [write|send a message] to {contact}, {message}
        let {contact} know (that) {message}
        send {contact} a [text|message] <at>: {message}
        [drop {contact} a line|write {contact} a message] saying {message}
        [reply to|answer] {contact} with {message}
        - [message|text] to {contact}: {message}
        - [text|message] for {contact}, {message}
        - can {contact} be [told|sent the message] {message}
    """,
    "message_read": """
        read (me) my [new|unread|] [messages|texts]
        read (me) the [last|latest] [message|text] from {contact}
        check my [messages|texts] (from {contact})
        show me what {contact} [wrote|texted|sent]
        read (out) the [text|message] from {contact}
        [open|read] my unread [messages|texts]
        go through my [texts|messages] from {contact}
        - any [new|unread|] [messages|texts] (from {contact})
        - did {contact} [text|write to|message] me
        - what did {contact} [write|text|send] (me) (<on>)
        - what does the [message|text] from {contact} say
        - have i got [anything|a message|any texts] from {contact}
    """,
    "quiet_on": """
        [turn|switch] on do not disturb (until {time})
        [mute|silence] my phone (for {duration})
        [switch|change] to [do not disturb|quiet mode] for {duration}
        [block|stop|mute] (all) notifications until {time}
        [silence|mute|block] my [notifications|calls] (for {duration})
        [hold|block] my calls (until {time})
        [activate|start|turn on] [quiet mode|do not disturb] (for {duration})
        - do not disturb until {time}
        - do not disturb
        - no [interruptions|calls|notifications] for {duration}
        - [nobody|no one] should [bother|disturb] me until {time}
        - i'm in a meeting for {duration}, [keep the phone silent|no calls]
    """,
    "quiet_off": """
        [turn|switch] off [do not disturb|quiet mode] (<at>)
        [unmute my phone|unmute my notifications|unmute the phone] [now|again|]
        [end|stop|leave] do not disturb (at {time})
        [allow|turn on] [notifications|calls] again (<at>)
        let [calls|notifications|messages] through again (<at>)
        [end|stop|leave] quiet mode (at {time})
        deactivate [quiet mode|do not disturb]
        - do not disturb off
        - quiet mode off (at {time})
        - people [may|can] [disturb|call|bother] me again
        - i'm [reachable|free for calls] again
        - my phone [can|may] [ring|make sounds] again
    """,
    "photo_take": """
        [take|snap|shoot] a [picture|photo] (in {duration:seconds})
        [take|snap] a selfie (in {duration:seconds})
        [take|snap] a [picture|photo] of {contact}
        open the camera and [take|shoot] a [photo|picture]
        [take|shoot] {count} [pictures|photos]
        [get|take] a [picture|photo] of me and {contact}
        - [selfie|photo] time
        - [cheese|smile], take [a photo|a picture|it] now
        - [photo|picture] of {contact} please
        - a [picture|photo|selfie] of us in {duration:seconds}
        - [picture|photo|selfie] with {contact}
    """,
    "alarm_set": """
        [set|make|create] an alarm <clock>
        wake me (up) [at|by] {time} (<on>)
        wake me up <on> at {time}
        [set|change] my alarm [to|for] {time}
        [create|set] an alarm for {time} every morning
        get me [out of bed|up] at {time}
        [make|let] my alarm [ring|go off] at {time} <on>
        [put|turn] an alarm on for {time}
        - alarm <clock>
        - alarm {time}
        - i [have to|must|need to] [get up|wake up] at {time} (<on>)
        - i [need|have] to be [awake|up] by {time} (<on>)
        - don't let me sleep [past|longer than] {time} (<on>)
    """,
    "alarm_cancel": """
        [cancel|delete|remove|clear] my alarm <clock>
        [cancel|delete|remove|clear] [the|my] {time} alarm
        [delete|cancel] the alarm for {time}
        [turn|switch] off [my|the] {time} alarm
        [remove|cancel|delete] all (my) alarms (<on>)
        [switch|turn] off [the|my] alarm <on>
        [clear|cancel] my alarm [for|at] {time}
        [drop|cancel] the [wake-up|alarm] at {time}
        - no [alarm|alarms] <on>
        - [alarm|all alarms] off
        - i don't [need|want] [the|my] {time} alarm
        - let me sleep (in) <on>, no [alarm|alarms]
    """,
    "timer_start": """
        [set|start] a timer for {duration}
        [start|set] a {duration:span} timer
        [set|start] a {timer} timer for {duration}
        [count down|start counting down] {duration}
        [give me|set] {duration} on the timer
        [begin|start] a [countdown|timer] of {duration}
        [time|count] {duration} for the {timer}
        put {duration} on the [clock|timer]
        - timer (for) {duration}
        - {timer} timer, {duration}
        - {duration} for the {timer}
        - i [need|want] a timer for {duration}
        - the {timer} [needs|takes] {duration}(, set a timer)
        - tell me when {duration} [are over|have passed]
    """,
    "timer_cancel": """
        [cancel|delete|remove|clear] [the|my] {timer} timer
        [stop|cancel|end] [the|my] {timer} timer
        [delete|cancel] the {duration:span} timer
        [turn|switch] off [the|my] {timer} timer
        [clear|cancel|stop] all (my) timers
        [end|stop|cancel] the [countdown|timer] (for the {timer})
        [abort|stop] the {duration:span} timer
        - no [more|] {timer} timer
        - {timer} timer off
        - forget (about) the {timer} timer
        - i don't [need|want] the {timer} timer any more
        - the {timer} is [done|ready], stop the timer
    """,
    "timer_ask": """
        tell me [how much time is|how many minutes are] left on the {timer} timer
        [check|look at] [the|my] {timer} timer
        [show|tell] me the [remaining time|time left] (on the {timer} timer)
        tell me how long the {timer} (still) [needs|takes]
        [read|show] me [my|all] timers
        - how much time [is left|do i have left] (on the {timer} timer)
        - how long [until|till] the {timer} (timer) is [done|over|ready]
        - how many minutes (are) left on my {timer} timer
        - what does the {timer} timer say
        - when will the {timer} timer [go off|ring|be done]
        - is the {timer} timer [still|] running
        - time left [for|on] the {timer}
    """,
    "event_add": """
        [add {event} to|put {event} in|put {event} on] my calendar <on> (at {time})
        [put|enter] a {event} on my calendar for {time} <on>
        [schedule|plan|book] a {event} with {contact} <on> (at {time})
        [schedule|book] a {event} <on> at {time}
        [create|make|add] an event called {event} <on>
        [book|plan|schedule] a {event} with {contact} at {time} <on>
        [plan|arrange] a {event} <on> at {time}
        [make|book] an appointment with {contact} <on> at {time}
        [enter|write|put] {event} in [the diary|my calendar] <on>
        - {event} <on> at {time}
        - {event} with {contact} <on>
        - new [event|appointment], {event} <on>, {time}
        - [i have|there is] a {event} with {contact} <on> at {time}
        - meeting {contact} for {event} <on>
    """,
    "calendar_ask": """
        [tell|show] me what's [on my calendar|in my diary|on my schedule] <on>
        read (me) my [calendar|schedule|appointments] <on>
        show (me) my [schedule|calendar] <on>
        [check|see|tell me] if i am [free|busy] <on> (at {time})
        [list|read] my [appointments|meetings] <on>
        go [over|through] my [plans|schedule|appointments] <on>
        - [what's|what is] [on|in] my [calendar|schedule] <on>
        - what do i have [planned|scheduled|] <on>
        - am i [free|busy] <on> (at {time})
        - when is my [next|] {event}
        - do i have [anything|a meeting|an appointment] with {contact} <on>
        - my [schedule|calendar|appointments|plans] <on>
        - any [appointments|plans|meetings] <on>
        - [what time|when] is [the|my] {event} <on>
    """,
    "reminder_add": """
        remind me (again) to {task} <at>
        remind me <at> to {task}
        [set|create|make] a reminder to {task} <at>
        remind me to {task} in {duration}
        [create|set] a reminder <at> to {task}
        remind {contact} and me to {task} <at>
        give me a [nudge|reminder] to {task} in {duration}
        [make sure i remember|help me remember] to {task} <at>
        - [reminder|remind me] <at>, {task}
        - reminder: {task} <at>
        - [don't|do not] let me forget to {task} (<at>)
        - i [must not|should not|can't] forget to {task} <at>
        - in {duration} i [have to|need to|must] {task}, remind me
    """,
    "note_add": """
        [take|make|write] a note: {note}
        [take|make] a note that {note}
        [make|save|write] a note [saying|that says] {note}
        [write|note|jot] down that {note}
        [note|write in my notes] that {note}
        [save|add|create] a note, {note}
        [jot|write|note] down {note}
        [keep|save|write] in my notes that {note}
        add to my [notes|notebook]: {note}
        - [new|another] note: {note}
        - note to [self|myself], {note}
        - for my [notes|notebook], {note}
        - [put this in my notes|write this down]: {note}
    """,
    "list_add": """
        [add <goods> to|put <goods> on] my {list} list
        [put|write|get] <goods> on [the|my] {list} list
        [add|append] <goods> to [the|my] list
        [write|note] <goods> on my {list} list
        [include|put] <goods> in the {list} list
        [append|add] <goods> to [my|the] {list} list
        - [we|i] need [to buy|] <goods>
        - [we're|we are] [out of|running out of|low on] {item}
        - {item} [on|for] the {list} list
        - [buy|get] <goods> (please)
        - {list} list: <goods>
        - the {list} list [needs|lacks] {item}
    """,
    "list_remove": """
        [remove|delete] {item} from [my|the] {list} list
        [take|cross|strike] {item} off [the|my] {list} list
        [delete|remove] {item} from [the|my] list
        [cross|take] {item} off my {list} list
        [strike|remove|drop] {item} from the {list} list
        [drop|delete] {item} from my {list} list
        [clear|empty|delete] my {list} list
        - [we|i] don't [need|want] {item} any more
        - no {item} on the {list} list
        - [i|we] already [bought|have|got] {item}
        - {item} off the {list} list
        - [forget the {item}|no more {item}], we have enough
    """,
    "list_show": """
        [show|read] me [my|the] {list} list
        read me [the|my] (whole) {list} list
        read (out) [my|the] {list} list
        [open|show] [the|my] {list} list
        [tell|show] me what's on [the|my] {list} list
        [bring|pull] up [my|the] {list} list
        go through [the|my] {list} list (with me)
        - [what's|what is] on [my|the] {list} list
        - {list} list please
        - is {item} [on|already on] [my|the] {list} list
        - what do [i|we] (still) need to buy
        - [how many|which] things are on [the|my] {list} list
    """,
}
