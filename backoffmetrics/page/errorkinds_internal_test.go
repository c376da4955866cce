package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// coded is an error whose type is its SQLSTATE.
type coded string

func (coded) Error() string      { return "coded" }
func (c coded) SQLState() string { return string(c) }

func fail(t *testing.T, m *served, err error) {
	m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, Class: backoff.ClassRetryable, Err: err})
}

// A program may have any number of kinds of errors. None is lost.
func TestTheKindsOfErrorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		for i := range 30 {
			for range 100 - i {
				fail(t, m, coded(fmt.Sprintf("%05d", i)))
			}
		}
		rows := m.pageData().Operations[0].Errors
		require.Len(t, rows, 8)
		require.Equal(t, "00000", rows[0].Type)
		require.Equal(t, otherErrors, rows[7].Type)
		var sum uint64
		for _, r := range rows {
			sum += r.Count
		}
		require.EqualValues(t, m.pageData().Operations[0].Attempts, sum)

		for range 60 { // these have not occurred for long
			time.Sleep(3 * step)
			m.points()
		}
		fail(t, m, coded("99999"))
		rows = m.pageData().Operations[0].Errors
		require.Len(t, rows, 1)
		require.Equal(t, "99999", rows[0].Type)
		require.EqualValues(t, 1, rows[0].Count, "the slot had another kind before")
	})
}

func TestAnErrorIsDatedFromItsFirstOccurrenceAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		began := time.Now().UnixMilli()
		for range 10 {
			fail(t, m, errors.New("down"))
			time.Sleep(time.Minute)
		}
		row := m.pageData().Operations[0].Errors[0]
		require.Equal(t, began, row.Since)
		require.Equal(t, time.Now().Add(-time.Minute).UnixMilli(), row.Last)
		require.Equal(t, "*errors.errorString", row.Type)
		require.Equal(t, "retryable", row.Class)
		time.Sleep(span + time.Second)
		fail(t, m, errors.New("down"))
		require.Equal(t, time.Now().UnixMilli(), m.pageData().Operations[0].Errors[0].Since)
	})
}

// The page and the log call an error the same.
func TestAFailureOfTheNetworkIsShownByItsPlainName(t *testing.T) {
	for want, err := range map[string]error{
		"connection refused": &url.Error{Op: "Get", URL: "http://a.test", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		"timeout":            context.DeadlineExceeded,
		"no such host":       &net.DNSError{IsNotFound: true},
	} {
		m := serve()
		fail(t, m, err)
		require.Equal(t, want, m.pageData().Operations[0].Errors[0].Type)
	}
}

func TestAStatusIsShownWithItsMeaning(t *testing.T) {
	for typ, want := range map[string]string{"503": "503 Service Unavailable", "599": "599", "40001": "40001", "connection refused": "connection refused", "UNAVAILABLE": "UNAVAILABLE"} {
		require.Equal(t, want, typeText(typ))
	}
}
