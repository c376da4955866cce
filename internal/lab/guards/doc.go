// Package guards is the scoreboard of docs/results/guards.md: worlds, and what the HTTP
// clients of this library and of others make of each.
//
// A world is a service and callers who want something from it. The clients are
// the real ones. The service is an [http.RoundTripper], and time is virtual, so
// that a minute takes a moment.
//
//	go test -C internal/lab ./guards -run 'TestWorlds/by chance' -v
//	go test -C internal/lab ./guards -run 'TestWorlds/by chance/^100 a second, 20' -v -clients all
//	go test -C internal/lab ./guards -run TestWorlds -list-worlds
//
// The first runs the worlds of one group, and prints what each client of a bar
// made of them: this library's, and those that it is compared with. A missed
// bar fails. -clients takes names with commas between them, or all. Without
// -run, only the worlds that take no time run, as in .ci/run; make nightly runs
// all.
//
//	make guards         # all worlds, all clients; writes docs/results/guards.md
//	make guards-page    # writes it again, from the figures that are kept
package guards
