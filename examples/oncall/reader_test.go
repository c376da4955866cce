package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What follows is of a real drill, shortened.

const recordedPage = `{"headline":{"sentences":[{"text":"prices (GET prices.internal) is failing: 32 % of its calls failed.","id":"prices-1"}]},
"operations":[
{"id":"prices-1","endpoint":"GET prices.internal","circuit":{"state":"half-open","opened":1},"calls":133,
 "outcomes":[{"name":"first","count":91},{"name":"retried","count":0},{"name":"failed","count":8},{"name":"refused","count":34}],
 "errors":[{"type":"connection refused","class":"not sent","count":17,"since":1795396710871,"last":1795396712037},{"type":"503 Service Unavailable","class":"retryable","count":1,"since":1,"last":1}]},
{"id":"search-1","endpoint":"GET search.internal","circuit":{"state":"closed","opened":0},"calls":130,
 "outcomes":[{"name":"first","count":129},{"name":"retried","count":1},{"name":"failed","count":0},{"name":"refused","count":0}],
 "errors":[{"type":"timeout","class":"retryable","count":1,"since":1795396705348,"last":1795396705348}]}]}`

func TestAPageBlamesWhatItsHeadlineNamesForItsMostFrequentError(t *testing.T) {
	var p page
	if err := json.Unmarshal([]byte(recordedPage), &p); err != nil {
		t.Fatal(err)
	}
	want := []symptom{
		{host: dyingHost, trouble: down, since: time.UnixMilli(1795396710871), last: time.UnixMilli(1795396712037), calls: 133, hurt: 42, opened: 1, open: true},
		{host: slowHost, calls: 130},
	}
	requireSymptoms(t, readPage(p), want)
}

const recordedRetry = `{"time":"2026-11-23T01:18:30.9Z","level":"INFO","msg":"retry","process":"service-1","operation":"prices","endpoint":"GET prices.internal","attempt":1,"class":"not sent","error_type":"connection refused","wait":52000000}
`

const recordedLog = `{"time":"2026-11-23T01:18:29Z","level":"INFO","msg":"retry","operation":"search","endpoint":"GET search.internal","attempt":1,"class":"retryable","error_type":"timeout"}
{"time":"2026-11-23T01:18:32.037Z","level":"WARN","msg":"transition","operation":"http://prices.internal","endpoint":"GET prices.internal","from":"closed","to":"open","trigger":"consecutive"}
{"time":"2026-11-23T01:18:33Z","level":"WARN","msg":"give up","operation":"prices","endpoint":"GET prices.internal","attempt":0,"reason":"open","class":"not sent","error_type":"*backoff.OpenError","suppressed":3}
{"time":"2026-11-23T01:18:37Z","level":"WARN","msg":"suppressed","operation":"prices","endpoint":"GET prices.internal","event":"give up","reason":"open","suppressed":2}
{"time":"2026-11-23T01:18:38.037Z","level":"INFO","msg":"transition","operation":"http://prices.internal","endpoint":"GET prices.internal","from":"half-open","to":"closed","trigger":"probe"}
`

func TestALogBlamesWhatFailsMoreThanAFewTimes(t *testing.T) {
	log, err := parseLog([]byte(strings.Repeat(recordedRetry, fewRecords+1) + recordedLog))
	if err != nil {
		t.Fatal(err)
	}
	failed := time.Date(2026, 11, 23, 1, 18, 30, 9e8, time.UTC)
	requireSymptoms(t, readLog(log), []symptom{
		{host: slowHost},
		{host: throttledHost},
		{host: dyingHost, trouble: down, since: failed, last: failed, hurt: 6, opened: 1},
	})
	if _, err := parseLog([]byte("panic: no JSON\n")); err == nil || !strings.Contains(err.Error(), "panic: no JSON") {
		t.Errorf("a line that is not JSON: %v", err)
	}
}

const recordedMetrics = `# TYPE backoff_calls_total counter
backoff_calls_total{operation="search",endpoint="GET search.internal",outcome="first"} 99
backoff_calls_total{operation="search",endpoint="GET search.internal",outcome="retried"} 10
backoff_calls_total{operation="search",endpoint="GET search.internal",outcome="failed"} 48
backoff_calls_total{operation="stock",endpoint="GET stock.internal",outcome="first"} 157
backoff_attempts_total{operation="search",endpoint="GET search.internal"} 175
backoff_attempts_total{operation="stock",endpoint="GET stock.internal"} 157
backoff_failed_attempts_total{operation="search",endpoint="GET search.internal",class="retryable"} 66
backoff_failed_attempts_total{operation="stock",endpoint="GET stock.internal",class="throttled"} 5
backoff_attempt_duration_seconds_sum{endpoint="GET search.internal",outcome="failure"} 33.04137825
backoff_attempt_duration_seconds_count{endpoint="GET search.internal",outcome="failure"} 66
backoff_breaker_state{breaker="http://search.internal",state="closed"} 1
backoff_breaker_state{breaker="http://stock.internal",state="closed"} 1
backoff_breaker_state{breaker="http://prices.internal",state="closed"} 0
backoff_breaker_transitions_total{breaker="http://prices.internal",from="closed",to="open",trigger="consecutive"} 2
`

func TestMetricsBlameWhatFailsOftenSinceTheFirstScrapeThatSawIt(t *testing.T) {
	last, err := parseMetrics(recordedMetrics)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1795396700, 0)
	times := []time.Time{began, began.Add(time.Second), began.Add(2 * time.Second)}
	requireSymptoms(t, readMetrics(times, [][]series{nil, last, last}), []symptom{
		{host: slowHost, trouble: slow, since: times[1], last: times[1], calls: 157, hurt: 48},
		{host: throttledHost, calls: 157},
		{host: dyingHost, opened: 2, open: true},
	})
	if _, err := parseMetrics("backoff_calls_total many\n"); err == nil {
		t.Error("no error for a value that is no number")
	}
}

func requireSymptoms(t *testing.T, got, want []symptom) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

func TestAnUpstreamHasTheTroubleThatMostProcessesHave(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	said := [][]symptom{
		{{host: slowHost, trouble: slow, since: at(1), last: at(9), calls: 10, hurt: 1}, {host: dyingHost, trouble: down}},
		{{host: slowHost, trouble: slow, since: at(5), last: at(8), calls: 10, hurt: 2}, {host: dyingHost, calls: 10}},
		{{host: slowHost, trouble: slow, since: at(4), last: at(7), calls: 10, hurt: 3}, {host: dyingHost, open: true}},
	}
	got := findings(said)
	want := finding{symptom{host: slowHost, trouble: slow, since: at(4), last: at(9), calls: 30, hurt: 6}, 3}
	if got[0] != want {
		t.Errorf("got  %+v\nwant %+v", got[0], want)
	}
	if got[2] != (finding{symptom: symptom{host: dyingHost, calls: 10, open: true}}) {
		t.Errorf("one process of three blames it: %+v", got[2])
	}
}

func TestOnlyAKnownPersonWithTheTokenMayChange(t *testing.T) {
	may := authorize(map[string]string{"ada": "secret"})
	for _, c := range []struct {
		who, token string
		allowed    bool
	}{
		{"ada", "secret", true}, {"ada", "", false}, {"ada", "Secret", false}, {"bob", "secret", false}, {"bob", "", false}, {"", "", false},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.SetBasicAuth(c.who, c.token)
		if who, err := may(r); (err == nil) != c.allowed || c.allowed && who != c.who {
			t.Errorf("%+v: %q, %v", c, who, err)
		}
	}
}

func TestAChildEndsWithItsInput(t *testing.T) {
	var out strings.Builder
	if err := runChild(strings.NewReader(`{"Address":"127.0.0.1:0"}`+"\n"), &out, &out); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(out.String(), "127.0.0.1:") {
		t.Errorf("it wrote %q, not its address", &out)
	}
	for _, input := range []string{"", "no task\n", `{"Address":"nowhere:-1"}` + "\n"} {
		if err := runChild(strings.NewReader(input), &out, &out); err == nil {
			t.Errorf("no error for the input %q", input)
		}
	}
}
