//go:build nightly

package dashboards

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grafana-tools/sdk"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// data is the directory of the dashboard and the alerts.
const data = "../../../contrib/dashboards/"

var promQL = parser.NewParser(parser.Options{})

// requireKnown checks every selector of a query against the series that are
// exposed: its name, and the labels that it matches and groups by.
func requireKnown(t *testing.T, query string, exposed []labels.Labels) {
	t.Helper()
	expr, err := promQL.ParseExpr(query)
	require.NoError(t, err, query)
	known := map[string]bool{"job": true, "instance": true}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		var found labels.Labels
		for _, l := range exposed {
			if l.Get(model.MetricNameLabel) == s.Name {
				found = l
			}
		}
		require.False(t, found.IsEmpty(), "%s is not exposed, in %s", s.Name, query)
		found.Range(func(l labels.Label) { known[l.Name] = true })
		for _, m := range s.LabelMatchers {
			require.True(t, m.Name == model.MetricNameLabel || known[m.Name], "%s has no %s, in %s", s.Name, m.Name, query)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			for _, by := range a.Grouping {
				require.True(t, known[by], "nothing has %s, in %s", by, query)
			}
		}
		return nil
	})
}

// store returns an hour of scrapes of a program, one every 15 s, whose counters
// grow evenly.
func store(t *testing.T) (*teststorage.TestStorage, []labels.Labels) {
	text, contentType := scrape(t, eventful(t))
	values, all, types := series(t, text, contentType)
	s := teststorage.New(t)
	appender := s.Appender(t.Context())
	for _, l := range all {
		value := values[l.String()]
		job := labels.NewBuilder(l).Set("job", "shop").Set("instance", "a:1").Labels()
		for n := range 241 {
			v := value
			if types[l.Get(model.MetricNameLabel)] != "gauge" {
				v *= float64(n)
			}
			_, err := appender.Append(0, job, int64(n)*15_000, v)
			require.NoError(t, err)
		}
	}
	require.NoError(t, appender.Commit())
	return s, all
}

func engine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
}

func dashboard(t *testing.T) ([]byte, sdk.Board) {
	text, err := os.ReadFile(data + "grafana.json")
	require.NoError(t, err)
	var board sdk.Board
	require.NoError(t, json.Unmarshal(text, &board))
	return text, board
}

// panel holds the fields that the types of the library do not have.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr, RefID string
		Datasource  struct{ UID string }
	}
}

func panels(t *testing.T, text []byte) []panel {
	var board struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(text, &board))
	return board.Panels
}

func TestGrafanaReadsTheDashboard(t *testing.T) {
	text, board := dashboard(t)
	require.Equal(t, "backoff", board.UID)
	require.Len(t, board.Templating.List, 4)
	require.Len(t, board.Annotations.List, 1)
	count := map[string]int{}
	for i, p := range panels(t, text) {
		count[p.Type]++
		require.Equal(t, p.Title, board.Panels[i].Title)
		require.Equal(t, p.Type, board.Panels[i].Type)
		if targets := board.Panels[i].GetTargets(); targets != nil {
			require.Len(t, *targets, len(p.Targets), p.Title)
		}
	}
	require.Equal(t, map[string]int{"row": 6, "stat": 6, "timeseries": 18, "heatmap": 3, "state-timeline": 1}, count)
}

func TestPanelsNeitherOverlapNorShareAnID(t *testing.T) {
	text, _ := dashboard(t)
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range panels(t, text) {
		require.Empty(t, ids[p.ID], p.Title)
		ids[p.ID] = p.Title
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, cells[cell], p.Title)
				cells[cell] = p.Title
			}
		}
	}
}

// Every query of the dashboard finds something in what a
// program exposes.
func TestEveryPanelHasData(t *testing.T) {
	text, _ := dashboard(t)
	storage, exposed := store(t)
	e := engine(t)
	vary := strings.NewReplacer("$__rate_interval", "5m", "$job", "shop|other", "$operation", ".*", "$endpoint", ".*")
	queries := 0
	for _, p := range panels(t, text) {
		for _, target := range p.Targets {
			queries++
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			query := vary.Replace(target.Expr)
			requireKnown(t, query, exposed)
			q, err := e.NewInstantQuery(t.Context(), storage, nil, query, time.Unix(3600, 0))
			require.NoError(t, err)
			result := q.Exec(t.Context())
			require.NoError(t, result.Err, query)
			require.Empty(t, result.Warnings, query)
			vector, err := result.Vector()
			require.NoError(t, err, query)
			require.NotEmpty(t, vector, "%s shows nothing: %s", p.Title, query)
			for _, sample := range vector {
				require.False(t, sample.F != sample.F, "%s is no number: %s", p.Title, query)
			}
			q.Close()
		}
	}
	require.Greater(t, queries, 25)
}

// Every exposed series is used by a panel.
func TestEverySeriesIsOnTheDashboard(t *testing.T) {
	text, _ := dashboard(t)
	_, exposed := store(t)
	for _, l := range exposed {
		name := l.Get(model.MetricNameLabel)
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if name == "backoff_budget_successes" { // the allowed retries are drawn from them
			continue
		}
		require.True(t, bytes.Contains(text, []byte(name)), name)
	}
}

func alerts(t *testing.T) map[string]rulefmt.Rule {
	text, err := os.ReadFile(data + "alerts.yaml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(bytes.TrimSpace(text), false, model.LegacyValidation, promQL, slog.Default())
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	all := map[string]rulefmt.Rule{}
	for _, rule := range groups.Groups[0].Rules {
		all[rule.Alert] = rule
	}
	return all
}

func TestPrometheusReadsTheRules(t *testing.T) {
	_, exposed := store(t)
	all := alerts(t)
	require.Len(t, all, 4)
	for name, rule := range all {
		requireKnown(t, rule.Expr, exposed)
		require.NotEmpty(t, rule.Annotations["summary"], name)
		require.NotEmpty(t, rule.Annotations["description"], name)
		require.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], name)
	}
}

// firing returns the whole minutes after which an alert fires, within half an
// hour of samples every 15 s. The load has the notation of Prometheus' rule
// tests.
func firing(t *testing.T, alert, load string) []int {
	rule := alerts(t)[alert]
	expr, err := promQL.ParseExpr(rule.Expr)
	require.NoError(t, err)
	storage := promqltest.LoadedStorage(t, "load 15s\n  "+strings.TrimSpace(load))
	query := rules.EngineQueryFunc(engine(t), storage)
	alerting := rules.NewAlertingRule(alert, expr, time.Duration(rule.For), 0, labels.FromMap(rule.Labels),
		labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, slog.Default())
	var minutes []int
	for minute := range 31 {
		now := time.Unix(int64(minute)*60, 0)
		_, err := alerting.Eval(t.Context(), 0, now, query, &url.URL{}, 0)
		require.NoError(t, err)
		alerting.SetEvaluationTimestamp(now) // as its group would
		if alerting.State() == rules.StateFiring {
			minutes = append(minutes, minute)
			for _, a := range alerting.ActiveAlerts() {
				require.NotContains(t, a.Annotations.Get("summary"), "<error", "the template")
			}
		}
	}
	return minutes
}

// load returns the series of an operation, given what it counts in 15 s.
func load(first, retried, failed, retries int, reason string) string {
	line := strings.NewReplacer("FIRST", count(first), "RETRIED", count(retried), "FAILED", count(failed), "RETRIES", count(retries), "REASON", reason)
	return line.Replace(`
  backoff_calls_total{job="shop",operation="fetch",endpoint="GET api.test",outcome="first"} FIRST
  backoff_calls_total{job="shop",operation="fetch",endpoint="GET api.test",outcome="retried"} RETRIED
  backoff_calls_total{job="shop",operation="fetch",endpoint="GET api.test",outcome="failed"} FAILED
  backoff_retries_total{job="shop",operation="fetch",endpoint="GET api.test",class="retryable"} RETRIES
  backoff_failures_total{job="shop",operation="fetch",endpoint="GET api.test",reason="REASON"} FAILED
`)
}

func count(each int) string {
	return "0+" + string(rune('0'+each/10)) + string(rune('0'+each%10)) + "x120"
}

// Retries go up and errors do not.
func TestRetriesWithoutErrorsFire(t *testing.T) {
	const alert = "BackoffRetriesWithoutErrors"
	fired := firing(t, alert, load(70, 15, 0, 20, "attempts"))
	require.Equal(t, []int{11, 12, 13}, fired[:3], "after ten minutes")
	require.Equal(t, 30, fired[len(fired)-1])
	withoutFailures := strings.Split(load(70, 15, 0, 20, "attempts"), "  backoff_failures")[0]
	require.NotEmpty(t, firing(t, alert, withoutFailures), "the series begins with the first failure")
	require.NotEmpty(t, firing(t, alert, load(60, 15, 10, 20, "permanent")), "a 404 is no error of retries")

	for name, quiet := range map[string]string{
		"few retries":     load(90, 5, 0, 5, "attempts"),
		"errors to match": load(60, 15, 10, 45, "attempts"),
		"an open circuit": load(60, 15, 10, 45, "open"),
		"nothing at all":  load(0, 0, 0, 0, "attempts"),
		"a few calls":     strings.ReplaceAll(load(1, 1, 0, 1, "attempts"), "0+01x120", "0+0x60 1+0x60"),
	} {
		require.Empty(t, firing(t, alert, quiet), name)
	}
}

// One endpoint of many that is broken must not be hidden by the others.
func TestAnAlertNamesTheEndpoint(t *testing.T) {
	const alert = "BackoffRetriesDoNotConverge"
	broken := load(20, 5, 60, 99, "attempts")
	busy := strings.ReplaceAll(strings.ReplaceAll(load(99, 0, 0, 0, "attempts"), "GET api.test", "GET other.test"), "0+99x120", "0+9999x120")
	require.NotEmpty(t, firing(t, alert, strings.TrimRight(broken, "\n")+busy))
	require.Empty(t, firing(t, alert, busy))
	unknown := strings.ReplaceAll(broken, `endpoint="GET api.test",`, "")
	require.NotEmpty(t, firing(t, alert, unknown), "of calls whose endpoint is not known, too")
}

// Retries go up, and calls fail nevertheless.
func TestRetriesThatDoNotConvergeFire(t *testing.T) {
	const alert = "BackoffRetriesDoNotConverge"
	fired := firing(t, alert, load(20, 5, 60, 99, "attempts"))
	require.Equal(t, 6, fired[0], "after five minutes")
	require.NotEmpty(t, firing(t, alert, load(20, 5, 60, 9, "budget")), "whether or not a budget holds them")
	require.NotEmpty(t, firing(t, alert, load(1, 0, 60, 1, "open")), "or a breaker refuses all but the probes")

	for name, quiet := range map[string]string{
		"rescued":        load(50, 40, 5, 50, "attempts"),
		"mostly rescued": load(40, 40, 15, 90, "attempts"),
		"permanent":      load(20, 0, 60, 0, "permanent"),
		"cancelled":      load(20, 0, 60, 0, "canceled"),
		"nothing at all": load(0, 0, 0, 0, "attempts"),
	} {
		require.Empty(t, firing(t, alert, quiet), name)
	}
}

func TestABudgetThatRefusesRetriesFires(t *testing.T) {
	const alert = "BackoffBudgetRefusesRetries"
	refusals := func(of string, each int) string {
		return strings.TrimRight(load(60, 20, 20, 40, "budget"), "\n") + `
  backoff_refusals_total{job="shop",operation="fetch",endpoint="GET api.test",of="` + of + `"} ` + count(each) + "\n"
	}
	require.Equal(t, 6, firing(t, alert, refusals("retry", 6))[0], "after five minutes")
	require.Empty(t, firing(t, alert, refusals("retry", 5)), "one in twenty")
	require.Empty(t, firing(t, alert, refusals("hedge", 20)))
}

func TestAnOpenCircuitFiresUntilItIsClosed(t *testing.T) {
	const alert = "BackoffBreakerOpen"
	fired := firing(t, alert, `
  backoff_breaker_state{job="shop",breaker="search",state="open"} 0x19 1x40 0x60
  backoff_breaker_state{job="shop",breaker="search",state="closed"} 1x19 0x40 1x60
`)
	require.Equal(t, []int{6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, fired)
	require.NotEmpty(t, firing(t, alert, `
  backoff_breaker_state{job="shop",breaker="search",state="open"} 0x19 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0x90
  backoff_breaker_state{job="shop",breaker="search",state="half-open"} 0x19 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 0x90
  backoff_breaker_refusals_total{job="shop",breaker="search"} 0x19 1+5x15 80x90
`), "as long as each probe hangs")
	require.Empty(t, firing(t, alert, `
  backoff_breaker_state{job="shop",breaker="search",state="open"} 0x120
  backoff_breaker_state{job="shop",breaker="search",state="half-open"} 1x120
  backoff_breaker_refusals_total{job="shop",breaker="search"} 7x120
`), "without traffic")
	require.Empty(t, firing(t, alert, `
  backoff_breaker_state{job="shop",breaker="search",state="open"} 0x19 1 1 0x99
`), "for a moment")
}
