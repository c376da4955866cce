package backoffslog_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard/endpoint"
)

func TestTheEndOfABurstSaysHowManyRecordsWereLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 2})
		ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET api.test/?token=hunter2"})
		for range 5 { // a burst of 5 seconds
			for range 100 {
				observe(ctx, backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: backoff.ReasonBudget, Err: errBoom})
			}
			time.Sleep(time.Second)
		}
		require.Len(t, j.records(t), 10, "while the burst goes on, its records say so")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		records := j.records(t)
		require.Len(t, records, 11)
		require.Equal(t, map[string]any{
			"msg": "suppressed", "level": "WARN", "operation": "fetch", "endpoint": "GET api.test/?token=xxxxx", "event": "give up", "reason": "budget",
			"suppressed": 98.0,
		}, records[10])
		total := 0.0
		for _, r := range records {
			n, _ := r["suppressed"].(float64)
			total += n
		}
		require.Equal(t, 490.0, total)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, j.records(t), 11, "once")
	})
}

// The record is written by no call, so a panic would end the program.
func TestAPanicOfTheHandlerAtTheEndOfABurstIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler{slog.NewTextHandler(io.Discard, nil), func(_ context.Context, r *slog.Record) {
			if r.Message == "suppressed" {
				panic("broken")
			}
		}}
		observe := backoffslog.New(slog.New(h), &backoffslog.Options{PerSecond: 1, Level: func(backoff.Event) slog.Level { return slog.LevelError }})
		for range 3 {
			observe(t.Context(), backoff.Event{Kind: backoff.EventRetry})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

func TestTheEndOfABurstHasItsHighestLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})
		for range 3 {
			observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		records := j.records(t)
		require.Len(t, records, 2)
		require.Equal(t, "suppressed", records[1]["msg"])
		require.Equal(t, "DEBUG", records[1]["level"])
	})
}

// Otherwise a flood of records would become a flood of timers.
func TestARecordThatIsLeftOutAllocatesNothing(t *testing.T) {
	observe := backoffslog.New(slog.New(slog.NewTextHandler(io.Discard, nil)), &backoffslog.Options{PerSecond: 1})
	ctx, e := t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch"}
	observe(ctx, e)
	observe(ctx, e)
	require.Less(t, testing.AllocsPerRun(1000, func() { observe(ctx, e) }), 1.0, "the timer of another second aside")
}
