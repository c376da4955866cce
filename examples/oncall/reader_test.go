package main

import (
	"testing"
	"time"
)

func TestAnUpstreamHasTheTroubleThatMostProcessesHave(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	for _, c := range []struct {
		said []symptom // by process
		want symptom
	}{
		{[]symptom{
			{trouble: slow, since: at(1), last: at(9), calls: 10, hurt: 1},
			{trouble: slow, since: at(5), last: at(8), calls: 10, hurt: 2},
			{trouble: slow, since: at(4), last: at(7), calls: 10, hurt: 3},
		}, symptom{trouble: slow, since: at(4), last: at(9), calls: 30, hurt: 6}},
		{[]symptom{{trouble: down}, {calls: 10}, {open: true, opened: 2}}, symptom{calls: 10, open: true, opened: 2}},
	} {
		next := -1
		got := summarize(make([]evidence, len(c.said)), slowHost, func(evidence, string) symptom {
			next++
			return c.said[next]
		})
		if got != c.want {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
}
