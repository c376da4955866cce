// Package fault brings about faults on a plan, for tests of code that retries.
// It resets connections, loses responses, answers with a status, cuts bodies and
// hangs, in a client of HTTP, on any connection, or around a function. It
// records what was sent, and a test checks that in one line:
//
//	sent := &fault.Injector{Plan: fault.Script(
//		fault.Lost(),      // the service does the first request; its response is lost
//		fault.Status(503), // the second one does not reach the service
//	)} // all others pass
//	client := http.Client{Transport: &backoffhttp.Transport{Base: sent.Handler(service)}}
//	// ... make the call ...
//	sent.Check(t, 3, fault.SameKey, fault.WholeBody, fault.Closed)
//
// Everything but a [Proxy] works in a bubble of testing/synctest. The package
// imports testing: it is for tests.
package fault
