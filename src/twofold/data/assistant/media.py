"""Goals about music, radio and loudness. Lines as in `home`."""

MEDIA = {
    "music_play": """
        [play|put on] {song} by {artist}
        [play|play me|put on] {song}
        [play|put on] some {genre} (music) (in the {room})
        [put on|play] {artist}
        [put on|play|start|shuffle] my {playlist} playlist
        [play|start] the {playlist} playlist (in the {room})
        [play|put on] something by {artist}
        [start|play] the playlist {playlist}
        [shuffle|play] songs by {artist}
        let me [hear|listen to] {song} (by {artist})
        [queue up|play] some {genre} music
        - [some|] {genre} music please
        - some {genre} in the {room}
        - [i want|i'd like] to [listen to|hear] {artist}
        - i'm in the mood for (some) {genre} (music)
        - {artist}, {song}
        - [do you have|can you find] {song} by {artist}
    """,
    "music_stop": """
        [stop|pause|turn off] the music (in the {room})
        [pause|stop] the [music|song|playlist]
        stop playing [music|that|] (in the {room})
        [turn|switch] off the [music|song] (in the {room})
        [turn|switch] the music off in {duration}
        pause the [track|music|song] for {duration}
        [cut|kill] the [music|playlist]
        [end|stop] the [playback|music] (in the {room})
        - music [off|stop] (in the {room})
        - [no more|enough] [music|songs] (in the {room})
        - silence in the {room}, no music
        - that's enough music (for today)
        - pause
    """,
    "music_next": """
        skip this [song|track]
        play the next [song|track] (in the {room})
        [go|jump|skip] to the next [song|track|one]
        [skip|jump] ahead {count} [songs|tracks]
        skip to the next [title|song] (on the {playlist} playlist)
        jump to the next track (in the {room})
        move on to the [following|next] [song|track]
        - next [song|track|one]
        - [skip it|skip|skip this]
        - i [don't like|hate] this [song|track], [next|skip it]
        - not this [one|song] again, [next|skip it]
        - [something else|next song], (i am) tired of {artist}
        - next song in the {room}
    """,
    "song_ask": """
        tell me [what|which] [song|track|tune] this is
        tell me who [sings this|is singing|plays this]
        [give|tell] me the [name|title] of this [song|track]
        [identify|name] this [song|track|tune]
        [look up|find] the [title|name] of this [track|song]
        - [what's|what is] this [song|track|tune] (called)
        - who [is singing|sings|plays] this (song)
        - [what|what song|which song] is playing (in the {room})
        - which album is this [song|track|] from
        - what's the [name|title] of [the|this] song in the {room}
        - is this [song by|] {artist}
        - whose [song|track|tune] is this
        - do you know this [tune|song]
    """,
    "volume_set": """
        [set|turn|put] the [volume|sound] to {level} (in the {room})
        [set|turn] the [speaker|volume] in the {room} to {level}
        [put|set] the [volume|sound] at {level}
        [turn|bring] the volume [up|down|] to {level}
        [change|adjust] the [volume|sound level] (in the {room}) to {level}
        [bring|set] the sound [level|] to {level}
        [adjust|set] the [loudness|volume] to {level}
        - [volume|sound] {level}
        - [volume|sound] at {level} in the {room}
        - volume to {level}
        - sound level {level} (in the {room})
        - [i want|i'd like] the volume at {level}
    """,
    "volume_up": """
        turn [it|the music|the sound] up (in the {room})
        [turn|pump] up the [volume|sound|music] (in the {room})
        make [it|the music] [louder|a bit louder] (in the {room})
        [raise|increase] the [volume|sound] (by {level})
        [increase|raise] the volume by {level}
        [crank|turn] up the [music|volume] (in the {room})
        [pump|crank] up the [sound|volume] (in the {room})
        - louder
        - [volume|sound] up (by {level})
        - [i can't|i can hardly] hear [it|the music|the song] (in the {room})
        - [a bit|much] louder in the {room}
        - [more|a bit more] volume (in the {room})
        - the music is [too|way too] quiet (in the {room})
    """,
    "volume_down": """
        turn [it|the music|the sound] down (in the {room})
        [turn|bring] down the [volume|sound|music] (in the {room})
        make [it|the music] [quieter|a bit quieter] (in the {room})
        [lower|decrease] the [volume|sound] (by {level})
        [decrease|lower] the volume by {level}
        [soften|turn down] the [music|sound] (in the {room})
        [bring|turn] down the [sound|volume] (in the {room})
        - quieter
        - [volume|sound] down (by {level})
        - [that's|it's|the music is] [too|way too] loud (in the {room})
        - [a bit|much] quieter in the {room}
        - [less|a bit less] volume (in the {room})
        - my ears hurt, [the {room} speaker|it] is [so|too] loud
    """,
    "radio_play": """
        [play|put on] {station} (in the {room})
        [turn|switch] on the radio (in the {room})
        tune [in|the radio] to {station}
        [put on|start] {station} on the radio (in the {room})
        [switch|turn|set] the radio to {station}
        [start|play] {station} on the {room} radio
        [play|find] the [radio station|station] {station}
        let me [listen to|hear] the station {station}
        - {station} [please|on the radio]
        - radio on (in the {room})
        - radio [on|,|] {station}
        - [i'd like|i want] to hear [the radio|{station}] in the {room}
        - some radio in the {room}(, {station} maybe)
    """,
    "podcast_play": """
        [play|start] the podcast {podcast} (in the {room})
        play the [latest|newest|last] episode of {podcast}
        [resume|continue] (the podcast) {podcast}
        [continue|resume] [the|my] podcast {podcast}
        [start|play] the [newest|latest] {podcast} podcast
        [put on|play] the [last|newest] episode of {podcast}
        [go back|return] to [my|the] podcast {podcast}
        [find|play] [a new|the next] episode of {podcast}
        - podcast {podcast}
        - the {podcast} podcast please
        - [latest|newest|next] {podcast} episode
        - is there a [new|newer] episode of {podcast}
        - [i want|i'd like] to hear the podcast {podcast}
    """,
}
