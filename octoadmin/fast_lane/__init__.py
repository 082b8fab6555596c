"""The fast lane: the plain, well-formed acquire, renew, release and inspect, answered on the event loop.

`reading` decides what is plain, `verbs` know the four calls, the `combiner` puts all that wait into one statement,
`lane` takes requests from their connections and answers them there. Whatever is not plain goes to the sync lane
untouched, so that DRF alone knows what is wrong with it. A request for which the engine has changed something never
does.
"""
