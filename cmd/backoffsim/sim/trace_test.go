package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTracesAreRead(t *testing.T) {
	const second = time.Second
	for text, want := range map[string]Trace{
		"t,count\n0,5\n10,0\n20,7\n": {{0, 10 * second, 5}, {10 * second, 10 * second, 0}, {20 * second, 10 * second, 7}},
		"100,1\n100.5,2":             {{0, second / 2, 1}, {second / 2, second / 2, 2}},
		"0,9":                        {{0, second, 9}},
		"\ufeff# a comment\n\nt , count\r\n 0 , 3 \r\n": {{0, second, 3}},
		"5\n5\n7.25\n": {{At: 0, Count: 1}, {At: 0, Count: 1}, {At: 2250 * time.Millisecond, Count: 1}},
		"2026-01-01T00:00:00Z\n2026-01-01T00:00:01.5Z": {{At: 0, Count: 1}, {At: 1500 * time.Millisecond, Count: 1}},
	} {
		got, err := ParseTrace(strings.NewReader(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestBadLinesOfATraceAreRefusedByTheirNumber(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "no calls in 0 lines",
		"t,count\n":              "no calls in 1 lines",
		"0,0\n1,0\n":             "no calls in 2 lines",
		"t,count\nx,1\n":         `line 2: time is "x", want seconds or RFC 3339`,
		"0,1\n# c\n1,-1\n":       `line 3: count is "-1", want a whole number, 0 or more`,
		"0,1\n1,1.5\n":           `line 2: count is "1.5"`,
		"0,1\n1,\n":              `line 2: count is ""`,
		"0,1\n1\n":               "line 2: 1 columns, and 2 before",
		"0\n1,1\n":               "line 2: 2 columns, and 1 before",
		"0,1,2\n":                "line 1: 3 columns, want t or t,count",
		"5,1\n4,1\n":             `line 2: time "4" is before that of the line before`,
		"5,1\n5,1\n":             `line 2: time "5" is that of the line before`,
		"0,1\nNaN,1\n":           `line 2: time is "NaN"`,
		"0,1\n1e300,1\n":         `line 2: time is "1e300"`,
		"0,1\n99999999,1\n":      "line 2: 27777h46m39s after the first line, want at most a year",
		"0,99999999\n1,2\n":      "line 2: more than 100000000 calls",
		strings.Repeat("1", 1e5): "line 1: ",
	} {
		_, err := ParseTrace(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%.40q", text)
		require.ErrorContains(t, err, "trace: ")
	}
}

func FuzzParseTrace(f *testing.F) {
	for _, text := range []string{"t,count\n0,5\n10,0\n", "1\n2\n2\n", "2026-01-01T00:00:00Z,4\n", "0,1\n-1,1", "a\nb", "1e11,1\n2e11,1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseTrace(strings.NewReader(text))
		if err != nil {
			require.Nil(t, trace)
			return
		}
		require.Positive(t, trace.calls())
		require.Zero(t, trace[0].At)
		s := Scenario{Trace: trace, Horizon: max(time.Second, min(trace.end()+1, 720*time.Hour))}
		require.NoError(t, s.checkTrace(), "what is read can be replayed")
	})
}

// After the end of recorded traffic there are no calls that could succeed.
func TestAServiceThatIsFastAgainOnlyAfterTheTrafficEndsHasNotRecovered(t *testing.T) {
	s := Dip()
	s.Rate, s.Trace = 0, Trace{{For: 50 * time.Second, Count: 50 * 40}}
	s.Server.Service, s.Processes = Exponential(20*time.Millisecond), 1
	s.Fault.From, s.Horizon = 10*time.Second, 150*time.Second
	r := run(t, s, 2, Naive(), None())
	require.Equal(t, 2, r[0].Never)
	s.Trace = Trace{{For: 140 * time.Second, Count: 140 * 40}}
	require.Zero(t, run(t, s, 2, None())[0].Never)
}
