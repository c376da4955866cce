// Package soak makes many calls through a network and a service that fail. It
// checks that no call is lost, that no call is carried out twice that must not
// be, and that nothing is left behind: no memory, goroutine, file descriptor or
// response body.
//
// The calls are made as a program makes them: with net/http over loopback, on
// connections that are kept open, through a backoffhttp.Transport with a
// policy, a retry budget, a breaker and an observer. Some calls have an
// Idempotency-Key, and some are hedged. Time is real.
//
// Beside every fourth call there is one that goes wrong in another way: by
// panics, hostile errors and hints, the keys of others, clients that go away
// (adversity_test.go). After each phase no place, ticket, value or body of
// theirs may be missing.
//
// At night it makes two million calls.
package soak
