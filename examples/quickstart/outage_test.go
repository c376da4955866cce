package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
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

var second = regexp.MustCompile(`^ +(\d)s  [█▏]* ?(\d+) +[█▏]* ?(\d+)`)

// The attempts of the loop are known exactly: four for each call that begins and
// ends while the server is down. The waits of the client are random. It sends
// a retry for eight calls and a few more, and then probes. The calls that waited meanwhile
// follow when the server is back.
func TestTheGuardsStopTheAttemptsAndLetThemComeBack(t *testing.T) {
	byHand, library := map[int]int{}, map[int]int{}
	for _, line := range picture(t) {
		if m := second.FindStringSubmatch(line); m != nil {
			n := atoi(t, m[1])
			byHand[n], library[n] = atoi(t, m[2]), atoi(t, m[3])
		}
	}
	for n, want := range []int{50, 145, 200, 200, 200, 85, 50, 50} {
		if byHand[n+1] != want {
			t.Errorf("second %d: %d attempts of the loop, want %d", n+1, byHand[n+1], want)
		}
	}
	for n, want := range [][2]int{{50, 50}, {50, 62}, {0, 10}, {0, 8}, {0, 8}, {50, 270}, {50, 60}, {50, 50}} {
		if got := library[n+1]; got < want[0] || got > want[1] {
			t.Errorf("second %d: %d attempts of the client, want %d to %d", n+1, got, want[0], want[1])
		}
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
	for _, line := range append(lines, row{10, counts{attempts: 200}, counts{attempts: 60, noBudget: 100}}.line()) {
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
		{row{1, counts{attempts: 50}, counts{attempts: 50, successes: 50}}, "  1s  ████ 50                  ████ 50        succeeded: 50"},
		{row{2, counts{attempts: 145}, counts{attempts: 58, noBudget: 41}}, "  2s  ████████████ 145         █████ 58       stopped by budget: 41"},
		{row{3, counts{attempts: 200}, counts{attempts: 3, noBudget: 2, open: 47}}, "  3s  █████████████████ 200    ▏ 3            stopped by breaker: 47"},
		{row{3, counts{attempts: 200}, counts{attempts: 3, waiting: 50}}, "  3s  █████████████████ 200    ▏ 3            waiting: 50"},
		{row{4, counts{}, counts{}}, "  4s  0                        0"},
	} {
		if got := c.row.line(); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}
