package main

import (
	"testing"
	"time"
)

func TestAnUpstreamHasTheTroubleThatMostProcessesHave(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	said := [][]symptom{
		{{host: slowHost, trouble: slow, since: at(1), last: at(9), calls: 10, hurt: 1}, {host: dyingHost, trouble: down}},
		{{host: slowHost, trouble: slow, since: at(5), last: at(8), calls: 10, hurt: 2}, {host: dyingHost, calls: 10}},
		{{host: slowHost, trouble: slow, since: at(4), last: at(7), calls: 10, hurt: 3}, {host: dyingHost, open: true}, {host: "unknown"}},
	}
	processes := make([]evidence, len(said))
	got := findings(processes, func(evidence) []symptom {
		next := said[0]
		said = said[1:]
		return next
	})
	want := []symptom{
		{host: slowHost, trouble: slow, since: at(4), last: at(9), calls: 30, hurt: 6},
		{host: throttledHost},
		{host: dyingHost, calls: 10, open: true},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}
