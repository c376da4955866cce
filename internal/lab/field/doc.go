// Command field measures on real sockets what the simulator computes: the dip of
// a service, and what the clients of several libraries make of it.
//
// For each client and each load it starts two processes: a service with a few
// slots and a long queue, and a fleet of clients. Calls come at random times,
// which are those of the simulator's seed, whether earlier calls have ended or
// not. For ten seconds the service does 30 % of its work. What each second
// brought is kept in testdata/runs.json. From that, and from the simulator run
// with the same parameters, the command writes docs/results/field.md and
// docs/results/field.svg.
//
//	make field                               # all of it
//	make field FIELD_CLIENTS=cenkalti,none   # some clients anew, the others as kept
//	make field FIELD_LOADS=80
//	make field-page                          # the page alone, from what is kept
package main
