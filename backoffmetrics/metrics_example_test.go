package backoffmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
)

func ExampleMetrics() {
	var metrics backoffmetrics.Metrics
	policy := backoff.Policy{Name: "fetch", Schedule: backoff.Constant(0), Observer: metrics.Observe}

	attempts := 0
	_ = policy.Do(context.Background(), func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("not yet")
		}
		return nil
	})

	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "backoff_calls_total") || strings.HasPrefix(line, "backoff_attempts_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// backoff_calls_total{operation="fetch",outcome="first"} 0
	// backoff_calls_total{operation="fetch",outcome="retried"} 1
	// backoff_calls_total{operation="fetch",outcome="failed"} 0
	// backoff_attempts_total{operation="fetch"} 3
}

func ExampleFamily() {
	var metrics backoffmetrics.Metrics
	policy := backoff.Policy{Name: "search", Observer: metrics.Observe}
	_ = policy.Do(context.Background(), func(context.Context) error { return nil })

	for _, family := range metrics.Families() {
		if family.Name == "backoff_attempts_total" {
			fmt.Println(family.Type, family.Help)
		}
	}
	// Output: counter Attempts that ended.
}

func ExampleSample() {
	var metrics backoffmetrics.Metrics
	policy := backoff.Policy{Name: "search", Observer: metrics.Observe}
	_ = policy.Do(context.Background(), func(context.Context) error { return nil })

	for _, family := range metrics.Families() {
		if family.Name == "backoff_calls_total" {
			for _, sample := range family.Samples {
				fmt.Println(sample.Labels, sample.Value)
			}
		}
	}
	// Output:
	// [operation search outcome first] 1
	// [operation search outcome retried] 0
	// [operation search outcome failed] 0
}

func ExampleMetrics_WatchFamily() {
	var metrics backoffmetrics.Metrics
	metrics.WatchFamily("build", func() backoffmetrics.Family {
		return backoffmetrics.Family{Name: "build_info", Type: "gauge", Help: "The version.", Labels: []string{"version"},
			Samples: []backoffmetrics.Sample{{Labels: []string{"version", "v1.2.3"}, Value: 1}}}
	})
	for _, family := range metrics.Families() {
		if family.Name == "build_info" {
			fmt.Println(family.Samples[0].Labels)
		}
	}
	// Output: [version v1.2.3]
}
