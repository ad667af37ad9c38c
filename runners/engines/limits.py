"""Every threshold of the client, with its reason. Numbers only."""

# A request that failed took load off the server and left no time behind, so those that remain look better. One in a
# hundred moves a median by less than the noise of a launch; below a hundred requests none may fail.
MAX_FAILED_SHARE = 0.01
# An answer of another length than asked is other work. Same reason, same share.
MAX_SHORT_SHARE = 0.01
# Run-queue wait of the client over the time measured. A waiting client reads late by about this share of a token's
# time; above 3 % that is as large as what is looked for. A starved client waits for 60 % and more.
MAX_WAIT_SHARE = 0.03
# Mean wait before each read, over the median TTFT: a first token is seen this much too late.
MAX_FIRST_TOKEN_WAIT_SHARE = 0.05
