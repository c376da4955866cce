package guards

// A section is what the page says of a group of worlds.
type section struct {
	group, title, about string
	figures             []string // a table for each
}

var sections = []section{
	{"by chance", "Answers that fail by chance", `The service responds with 503 after 5 ms, to each attempt by itself with
the same probability. The luck of an attempt is the same for all clients. Calls have 30 s. With four
attempts and nothing that holds them back, all but the fourth power of that probability succeed.`, []string{success, perCall}},
	{"hung replica", "A replica that hangs", `Some attempts never get an answer. An attempt has a second, and a call 30.`, []string{success, perCall}},
	{"latency", "Latency that varies", `Some answers are a 503, and the answers take a time that varies: log-normal
with a median of 20 ms, or errors that take longer (300 ms, successes 5) or shorter (1 ms, successes
100) than successes, or attempts that have as much time as 99 or 95 of 100 successes take.`, []string{success}},
	{"marked", "Requests that are refused for their own sake", `The service refuses some calls each time they come, by
[DoNotRetry or WriteError](../backoffhttp/donotretry.go), and answers all others. A call has 3 s.`, []string{success, perCall}},
	{"bare 429", "A 429 that has nothing to do with the rate", `Some requests get a 429 without a Retry-After: every tenth,
or each by chance. A call has 3 s.`, []string{success, slow}},
	{"limits", "Limits", `The server has a limit (a token bucket). Each program has 50 workers, and so could make many
times as many calls, for a minute. Or the limit is a tenth for half a minute, and it is counted how long
it takes until it is used again. Or a program rests between bursts of calls, which have 5 s; five of them
may go at once.`, []string{success, refusals, least, recovery}},
	{"chain", "Services between", `A call goes through services to the last one, which fails by chance. Those of
this library have Inbound and WriteError, as its documents say; those of the others pass on that it
failed. A call has 30 s, and so not all attempts that could be made are made.`, []string{success, leaf}},
	{"tenants", "Two tenants", `A program calls a host for two tenants, with a credential each. One of them is
throttled with 429, at the rates below; "used up its quota" adds Retry-After: 3600. The figures are those
of the other one, who makes 20 calls a second, or 2 beside a quota, and whom the host would always serve.`, []string{success, median}},
	{"bulk", "A job at a limit", `A program that has just begun makes calls with 20 workers, at a server with a limit
that says 429. What it takes is until the last call has ended, even if it failed.`, []string{took, success, refusals}},
	{"restarts", "Restarts", `Nobody listens for the last seconds of each half minute, for two minutes. The server can do
twice the work that comes. A call has 30 s, and so all could succeed. "Lost" is the time whose calls failed, in
multiples of the down time, and "queue" the work that has come back at once.`, []string{success, lost, whileDown, worstQueue, slow}},
	{"dip", "A server that is slow for ten seconds", `The server can do 1,000 a second, one after the other, and
does not notice that a caller has gone. For ten seconds it does 30 % of that. Attempts have a second.
With "429" it rejects what comes while 200 ms of work wait, which costs a third of an answer. Recovery is the
time until nine of ten calls succeed for 5 s.`, []string{success, recovery, perCall}},
	{"overload", "Overload", `The same server. Some of its answers are errors that cost as much as any; or more comes than
it can do, and it rejects what comes while 200 ms of work wait. That begins after a minute in which all is well,
except "from the start". "Could" is what remains when retries get all
of its work that first attempts leave.`, []string{success, perCall}},
	{"outage", "An outage", `The service says 503 to all for a minute of two and a half, or nothing. A call has 30 s, so
that those of half a minute could wait. "Meanwhile" is how many attempts there are for a call that begins in
the outage.`, []string{success, meanwhile, recovery}},
}
