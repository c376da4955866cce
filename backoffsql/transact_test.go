package backoffsql_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// ledger is a store of its own kind, with transactions that are not package
// sql's. A transaction is its number, from 1.
type ledger struct {
	commit, rollback func(tx int) error

	n   int
	log []string
}

func (l *ledger) note(what string, answer func(int) error) error {
	l.log = append(l.log, what)
	if answer == nil {
		return nil
	}
	return answer(l.n)
}

func (l *ledger) Begin(context.Context) (int, error) {
	l.n++
	return l.n, l.note("begin", nil)
}

func (l *ledger) Commit(context.Context, int) error   { return l.note("commit", l.commit) }
func (l *ledger) Rollback(context.Context, int) error { return l.note("rollback", l.rollback) }

func nothing(context.Context, int) error { return nil }

func TestTransactBelievesATransactorThatNothingWasCommitted(t *testing.T) {
	gone := errors.New("no connection")
	for _, c := range []struct {
		err  error
		log  string
		want error
	}{
		{backoffsql.RolledBack(backoff.OfClass(gone, backoff.ClassNotSent)), "begin commit begin commit", nil},
		{backoffsql.RolledBack(gone), "begin commit", gone}, // proven, and permanent
	} {
		for _, i := range []backoff.Idempotency{nil, backoff.NonIdempotent, backoff.Idempotent} {
			l := &ledger{commit: times(1, c.err)}
			err := backoffsql.Transact(t.Context(), l, with(i), nothing)
			require.ErrorIs(t, err, c.want)
			require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
			require.Equal(t, c.log, strings.Join(l.log, " "))
			if c.want != nil {
				require.Same(t, c.want, backoff.Cause(err), "the mark is taken off")
			}
		}
	}
	require.NoError(t, backoffsql.RolledBack(nil))
	require.ErrorIs(t, backoffsql.RolledBack(gone), gone)
}

// A transaction that fn has ended itself is never repeated without proof that
// it was not committed.
func TestTransactNeverRepeatsWhatFnEnded(t *testing.T) {
	ended := fmt.Errorf("%w: closed", backoffsql.ErrEnded)
	lost := func(context.Context, int) error { return io.ErrUnexpectedEOF }
	refused := func(context.Context, int) error { return state("40001") }
	sleep := func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
	late := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	cut := func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Canceled }
	for _, c := range []struct {
		name string
		fn   func(context.Context, int) error
		want error
		log  string
	}{
		{"and hid it", nothing, backoffsql.ErrEnded, "begin commit"},
		{"and then took too long", sleep, backoffsql.ErrEnded, "begin rollback"},
		{"by a COMMIT without an answer", lost, backoffsql.ErrCommitUnknown, "begin rollback"},
		{"by a COMMIT that took too long", late, backoffsql.ErrCommitUnknown, "begin rollback"},
		{"by a COMMIT that was cut short", cut, backoffsql.ErrCommitUnknown, "begin rollback"},
		{"by a COMMIT that was refused", refused, nil, "begin rollback begin commit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{commit: times(1, ended), rollback: times(1, ended)}
				if c.want == nil {
					l.commit = nil
				}
				p := swift
				p.AttemptTimeout = time.Second
				err := backoffsql.Transact(t.Context(), l, p, func(ctx context.Context, tx int) error {
					if tx == 1 {
						return c.fn(ctx, tx)
					}
					return nil
				})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.want == backoffsql.ErrCommitUnknown, errors.Is(err, backoffsql.ErrCommitUnknown))
				require.False(t, err != nil && backoff.Policy{}.Retryable(err))
				require.Equal(t, c.log, strings.Join(l.log, " "))
			})
		})
	}
}

func TestTransactRefusesBadInput(t *testing.T) {
	for _, err := range []error{
		backoffsql.Transact[int, backoffsql.Transactor[int]](t.Context(), nil, backoff.Policy{}, nothing),
		backoffsql.Transact(t.Context(), &ledger{}, backoff.Policy{}, nil),
	} {
		require.EqualError(t, err, "backoffsql: Transact wants a Transactor and a function")
		require.False(t, backoff.Policy{}.Retryable(err))
	}
}

// journal is a store with transactions, but without SQL.
type journal struct{ entries, open []string }

func (j *journal) Begin(context.Context) (*journal, error) { return &journal{}, nil }

func (j *journal) Commit(ctx context.Context, tx *journal) error {
	if ctx.Err() != nil {
		return backoffsql.RolledBack(ctx.Err()) // nothing is written yet
	}
	j.entries = append(j.entries, tx.open...)
	return nil
}

func (j *journal) Rollback(context.Context, *journal) error { return nil } // tx is forgotten

// A database that has its own transactions needs three methods.
func ExampleTransactor() {
	j := &journal{}
	policy := backoff.Policy{Schedule: backoff.Constant(time.Millisecond)}
	attempts := 0
	err := backoffsql.Transact(context.Background(), j, policy, func(ctx context.Context, tx *journal) error {
		attempts++
		tx.open = append(tx.open, fmt.Sprint("attempt ", attempts))
		if attempts == 1 {
			return state("40001")
		}
		return nil
	})
	fmt.Println(err, j.entries)
	// Output: <nil> [attempt 2]
}

// A driver that panics must not keep its connection.
func TestTransactRollsBackForAPanicInCommit(t *testing.T) {
	l := &ledger{commit: func(int) error { panic("boom") }}
	require.PanicsWithValue(t, "boom", func() { backoffsql.Transact(t.Context(), l, swift, nothing) })
	require.Equal(t, "begin commit rollback", strings.Join(l.log, " "))
}
