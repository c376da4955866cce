// Package fleet lets breakers and budgets see more than one process: what the others
// learn of a service reaches them as advice, by way of a store such as Redis.
//
//	var hub = &fleet.Client{Store: store}
//	var service = backoff.Stack(
//		&backoff.Breaker{Name: "search", Shared: hub},
//		&backoff.Policy{Name: "search"},
//	)
//
// The local guard decides, the store is advice: calls never wait for it (unless Wait
// says so; but the one that asks to be the probe does, shortly, or it would be
// refused), and where it is slow, gone, empty or lying, every process goes by what it
// sees itself. What is told is little. A process whose circuit opens says so; where a
// quorum of them has, those that have seen too few calls to judge by open theirs, too.
// When the time is over, one process in the fleet probes, and tells the others.
//
// [Budget] shares out a number of retries among all processes, in blocks.
//
// There is no goroutine but those that are talking to the store just now, and a process
// that makes no calls does not talk to it. See docs/fleet.md for when all this helps, when
// it hurts, and what it costs.
package fleet
