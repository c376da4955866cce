// Package fleet lets the breakers and budgets of many processes work together.
// The processes share what they know of a service through a store such as
// Redis.
//
// This module is experimental: its API may change in any release. Its stores
// are redisstore and postgresstore.
//
//	var hub = &fleet.Client{Store: store}
//	var service = &guard.Service{Breaker: &backoff.Breaker{Name: "search", Shared: hub}}
//
//	err := service.Do(ctx, policy, search)
//
// The local breaker decides; the store only advises it. Calls never wait for
// the store, unless Wait says so. There is one exception: the call that asks
// to be the probe waits for a short time, because otherwise it would be
// refused. If the store is slow, gone, empty or wrong, every process decides
// by what it sees itself.
//
// Processes exchange little. A process whose circuit opens says so. When a
// quorum of processes has said so, those that have seen too few calls to judge
// open their circuits too. When the open time expires, one process in the
// fleet probes, and tells the others the result.
//
// [Budget] shares a limit of retries among all processes, in blocks.
//
// The only goroutines are those that talk to the store, and a process that
// makes no calls does not talk to it. See README.md for when a shared
// breaker helps, when it hurts, and what it costs.
package fleet
