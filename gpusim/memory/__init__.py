"""Models of the memory system: events in, counters and events out.

`shared` and `coalescer` hold the rules of one access (geometry from the device file, per-lane
detail for reports); `counters` holds the same rules compiled, applied to chunks of events.
Nothing here knows instructions or executes anything: the input is always ``events.EVENT``.
"""
