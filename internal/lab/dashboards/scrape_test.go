//go:build nightly

package dashboards

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/hedge"
)

const hostile = "<b>\"a\\b\"\n{x=\"y\"} 1\u2028\xff"

// eventful returns a Metrics that has counted every kind of event, of real
// policies, hedges, breakers and budgets.
func eventful(t *testing.T) *backoffmetrics.Metrics {
	m := new(backoffmetrics.Metrics)
	scraped := &backoff.RetryBudget{} // in real time, as it will be when it is read
	m.WatchBudget("search", scraped)
	for range 30 {
		require.NoError(t, backoff.Policy{Budget: scraped}.Do(t.Context(), func(context.Context) error { return nil }))
	}
	synctest.Test(t, func(t *testing.T) {
		to := &endpoint.Endpoint{Name: "GET api.test"}
		ctx, cancel := context.WithTimeout(endpoint.With(t.Context(), to), time.Hour)
		defer cancel()
		budget := &backoff.RetryBudget{}
		down := func(ctx context.Context) error {
			return to.Do(ctx, func(context.Context) error { return backoff.OfClass(errors.New("down"), backoff.ClassRetryable) })
		}
		for _, name := range []string{"search", hostile, ""} {
			p := backoff.Policy{Name: name, Observer: m.Observe, Budget: budget}
			for range 30 {
				require.NoError(t, p.Do(ctx, func(ctx context.Context) error { return to.Do(ctx, func(context.Context) error { return nil }) }))
			}
			failures := 1
			require.NoError(t, p.Do(ctx, func(context.Context) error {
				if failures--; failures >= 0 {
					return down(ctx)
				}
				return nil
			}))
			for range 20 { // until the budget is used up
				require.Error(t, p.Do(ctx, down))
			}
			require.Error(t, backoff.Supervisor{Policy: backoff.Policy{Name: name, Observer: m.Observe}, MaxRuns: 2}.Run(ctx, down))
			hedged(t, ctx, m, name)
			broken(ctx, m, name)
		}
	})
	return m
}

func hedged(t *testing.T, ctx context.Context, m *backoffmetrics.Metrics, name string) {
	h := &hedge.Hedge{Name: name, Observer: m.Observe, Delay: time.Second}
	for _, slow := range []int{0, 1} {
		_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
			wait := 2 * time.Second
			if hedge.Number(ctx) == slow {
				wait = time.Minute
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			return 0, nil
		}, nil)
		require.NoError(t, err)
	}
}

func broken(ctx context.Context, m *backoffmetrics.Metrics, name string) {
	b := &backoff.Breaker{Name: name, Observer: m.Observe}
	b.Trip()
	_ = b.Do(ctx, func(context.Context) error { return nil })
	time.Sleep(time.Minute)
	_ = b.Do(ctx, func(context.Context) error { return nil })
}

func scrape(t *testing.T, m *backoffmetrics.Metrics) (text []byte, contentType string) {
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	client := server.Client()
	r := httptest.NewRequest("GET", server.URL+"/metrics", nil)
	r.RequestURI = ""
	r.Header.Set("Accept", accepts)
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return text, resp.Header.Get("Content-Type")
}

// accepts is the Accept header of Prometheus 3.
const accepts = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
	"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

// series reads a scrape as Prometheus does: the values and the types of the
// families.
func series(t *testing.T, text []byte, contentType string) (map[string]float64, []labels.Labels, map[string]model.MetricType) {
	p, err := textparse.New(text, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	require.NoError(t, err)
	values, types := map[string]float64{}, map[string]model.MetricType{}
	var all []labels.Labels
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return values, all, types
		}
		require.NoError(t, err)
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			types[string(name)] = kind
		case textparse.EntrySeries:
			_, at, v := p.Series()
			require.Nil(t, at)
			var l labels.Labels
			p.Labels(&l)
			_, twice := values[l.String()]
			require.False(t, twice, "%s twice", l)
			values[l.String()] = v
			all = append(all, l)
		}
	}
}

func TestPrometheusReadsEverySeries(t *testing.T) {
	text, contentType := scrape(t, eventful(t))
	_, all, types := series(t, text, contentType)
	hasHostile := false
	for _, l := range all {
		hasHostile = hasHostile || l.Get("operation") == strings.ToValidUTF8(hostile, "\uFFFD")
	}
	require.True(t, hasHostile)
	for name, kind := range types {
		require.Equal(t, kind == model.MetricTypeCounter, strings.HasSuffix(name, "_total"), name)
	}
}

// The parser of the client library also checks that families are whole.
func TestFamiliesAreWhole(t *testing.T) {
	text, _ := scrape(t, eventful(t))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	require.NoError(t, err)
	require.Len(t, families, 20)
	for name, family := range families {
		require.NotEmpty(t, family.GetHelp(), name)
		require.NotEmpty(t, family.GetMetric(), "%s has no series: an event is missing above", name)
		for _, metric := range family.GetMetric() {
			h := metric.GetHistogram()
			if h == nil {
				continue
			}
			before := uint64(0)
			for _, b := range h.GetBucket() {
				require.GreaterOrEqual(t, b.GetCumulativeCount(), before, name)
				before = b.GetCumulativeCount()
			}
			require.True(t, math.IsInf(h.GetBucket()[len(h.GetBucket())-1].GetUpperBound(), 1), name)
			require.Equal(t, h.GetSampleCount(), before, name)
		}
	}
}
