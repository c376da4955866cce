package main

import "time"

// A pageJSON is the part of the live page's JSON that the reader needs.
type pageJSON struct {
	Period   struct{ Text string } // such as "the last 5 min"
	Headline struct {
		Sentences []struct{ Text, ID string }
	}
	Controls struct {
		Overrides []struct {
			Text, Who, Why string
			Until          int64 // in ms of the Unix time
		}
	}
	Operations []card
}

// A card is what the page shows of the calls to an upstream.
type card struct {
	ID, Endpoint string
	Circuit      struct {
		State           string
		Opened, Refused int
	}
	Calls    int
	Outcomes []struct {
		Name  string
		Count int
	}
	Errors []struct { // the most frequent first
		Type, Class string
		Since, Last int64 // in ms of the Unix time
	}
}

// readPage reads the latest page: its headline names the operations in trouble,
// and the first error of such an operation says why.
func readPage(e evidence, host string) (s symptom) {
	p := e.latest().page
	for _, c := range p.Operations {
		if hostOf(c.Endpoint) != host {
			continue
		}
		s = symptom{calls: c.Calls, opened: c.Circuit.Opened, open: c.Circuit.State != "closed"}
		for _, o := range c.Outcomes {
			if o.Name == "failed" || o.Name == "refused" {
				s.hurt += o.Count
			}
		}
		for _, sentence := range p.Headline.Sentences {
			if sentence.ID == c.ID && len(c.Errors) > 0 {
				first := c.Errors[0]
				s.trouble = troubleOf(first.Class, first.Type)
				s.since, s.last = time.UnixMilli(first.Since), time.UnixMilli(first.Last)
			}
		}
	}
	return s
}
