//go:build nightly

package dashboards

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grafana-tools/sdk"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
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
