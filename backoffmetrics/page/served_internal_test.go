package page

import (
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// served is a Metrics with its page.
type served struct {
	backoffmetrics.Metrics
	*page
}

// serve returns a Metrics that has a page from the start.
func serve(panels ...*control.Panel) *served {
	s := new(served)
	s.page = Handler(&s.Metrics, panels...).(*page)
	return s
}

// points returns the points up to now.
func (s *served) points() timeline {
	t, _ := s.timeline()
	return t
}

var fetch = at("fetch", "")

// at returns the labels of an operation.
func at(name, endpoint string) snapshot.Labels {
	return snapshot.Labels{Name: name, Endpoint: endpoint}
}
