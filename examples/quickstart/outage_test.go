package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// inMemory is a service without a network. It is a transport.
type inMemory struct{ down atomic.Bool }

func (s *inMemory) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.down.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func (s *inMemory) service() service {
	return service{base: s, url: "http://server.test/", stop: func() { s.down.Store(true) },
		restart: func() error { s.down.Store(false); return nil }}
}

// picture returns the lines of an outage in virtual time.
func picture(t *testing.T) []string {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		if err := outage(t.Context(), &out, new(inMemory).service()); err != nil {
			t.Error(err)
		}
	})
	return strings.Split(out.String(), "\n")
}

var second = regexp.MustCompile(`^ +(\d)s  [█▏]* ?(\d+) +(\d+) +(\d+)  [█▏]* ?(\d+) +(\d+) +(\d+)$`)

// shown returns the numbers of a column of a picture, second by second.
func shown(t *testing.T, picture []string, column int) (numbers []int) {
	for _, line := range picture {
		if m := second.FindStringSubmatch(line); m != nil {
			numbers = append(numbers, atoi(t, m[column]))
		}
	}
	return numbers
}

// The attempts of the loop are known exactly: four for each call that begins and
// ends while the server is down. The waits of the client are random. It sends
// a retry for eight calls and a few more, and then probes. The calls that waited meanwhile
// follow when the server is back.
func TestTheGuardsStopTheAttemptsAndLetThemComeBack(t *testing.T) {
	lines := picture(t)
	if got, want := shown(t, lines, 2), []int{50, 145, 200, 200, 200, 85, 50, 50}; !slices.Equal(got, want) {
		t.Errorf("%d attempts of the loop, want %d", got, want)
	}
	library := shown(t, lines, 5)
	for n, want := range [][2]int{{50, 50}, {50, 62}, {0, 10}, {0, 8}, {0, 8}, {50, 270}, {50, 60}, {50, 50}} {
		if got := library[n]; got < want[0] || got > want[1] {
			t.Errorf("second %d: %d attempts of the client, want %d to %d", n+1, got, want[0], want[1])
		}
	}
}

// A call of the loop lasts 0.7 s while the server is down, and so 35 wait at the end of each of
// these seconds. The waits of the client end at random in the second after them, or in the next.
func TestEachLaneSaysHowManyCallsSucceedAndWait(t *testing.T) {
	lines := picture(t)
	for column, want := range map[int][]int{
		3: {50, 0, 0, 0, 0, 85, 50, 50}, // succeeded with the loop
		4: {0, 35, 35, 35, 35, 0, 0, 0}, // wait in the loop
	} {
		if got := shown(t, lines, column); !slices.Equal(got, want) {
			t.Errorf("column %d: %d, want %d", column, got, want)
		}
	}
	succeeded, waiting := shown(t, lines, 6), shown(t, lines, 7)
	if want := []int{50, 0, 0, 0, 0}; !slices.Equal(succeeded[:5], want) {
		t.Errorf("%d succeeded with the client, want %d", succeeded, want)
	}
	if want := []int{0, 50, 100, 150, 200}; !slices.Equal(waiting[:5], want) {
		t.Errorf("%d wait in the client, want %d", waiting, want)
	}
	if all := succeeded[5] + succeeded[6] + succeeded[7]; all != 350 || waiting[7] != 0 {
		t.Errorf("%d succeeded after the outage, want 350; %d wait", all, waiting[7])
	}
	const back = "      the server is back; 165 calls of the loop have failed, 0 of the client"
	if !slices.Contains(lines, back) {
		t.Errorf("no line %q in\n%s", back, strings.Join(lines, "\n"))
	}
}

func TestTheSummaryCountsWhatWasSentMeanwhileAndWhatSucceeded(t *testing.T) {
	text := strings.Join(picture(t), "\n")
	want := `200 calls became 745 attempts of the loop, and [5-8]\d of\nthe client. Of all 400 calls, 235 of the loop succeeded, and 400 of the client\.\n`
	if !regexp.MustCompile(want).MatchString(text) {
		t.Errorf("no text like %s in\n%s", want, text)
	}
}

func TestThePictureFitsInto80Columns(t *testing.T) {
	lines := picture(t)
	for _, line := range append(lines, row{8, counts{attempts: 200}, counts{attempts: 300, successes: 300}}.line()) {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestInterruptEndsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := outage(ctx, io.Discard, new(inMemory).service())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
			t.Errorf("ended after %s with %v", time.Since(began), err)
		}
	})
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARowHasABarForEachLane(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{1, counts{attempts: 50, successes: 50}, counts{attempts: 50, successes: 50}}, "  1s  ██ 50                 50        0  ██ 50                    50        0"},
		{row{3, counts{attempts: 200, waiting: 35}, counts{attempts: 3, waiting: 100}}, "  3s  ████████ 200           0       35  ▏ 3                       0      100"},
		{row{4, counts{}, counts{}}, "  4s  0                      0        0  0                         0        0"},
	} {
		if got := c.row.line(); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}
