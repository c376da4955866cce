package main

import "time"

// A page is the part of the live page's JSON that the reader needs.
type page struct {
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

// readPage returns what the latest page says: its headline names the operations
// in trouble, and the first error of such an operation says why.
func readPage(e evidence) []symptom {
	p := e.latest().page
	named := make(map[string]bool)
	for _, s := range p.Headline.Sentences {
		named[s.ID] = true
	}
	var all []symptom
	for _, c := range p.Operations {
		s := symptom{host: hostOf(c.Endpoint), calls: c.Calls, opened: c.Circuit.Opened, open: c.Circuit.State != "closed"}
		for _, o := range c.Outcomes {
			if o.Name == "failed" || o.Name == "refused" {
				s.hurt += o.Count
			}
		}
		if named[c.ID] && len(c.Errors) > 0 {
			e := c.Errors[0]
			s.trouble, s.since, s.last = troubleOf(e.Class, e.Type), time.UnixMilli(e.Since), time.UnixMilli(e.Last)
		}
		all = append(all, s)
	}
	return all
}
