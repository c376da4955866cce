// Package soak makes a great many calls through a network and a service that fail, and holds that
// none is lost, none is made twice that must not be, and nothing is left behind: no memory, no
// goroutine, no descriptor, no body of a response.
//
// The calls are those of a program: net/http over loopback on connections that are kept, through
// a backoffhttp.Transport with a policy, a retry budget, a breaker and an observer, some of them
// under an Idempotency-Key, some hedged. Time is real, and so it has a module of its own.
//
//	make soak                 # ten million calls
//	make soak CALLS=1000000
package soak
