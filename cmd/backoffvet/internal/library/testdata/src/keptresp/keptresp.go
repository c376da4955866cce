package keptresp

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

var (
	timed   = backoff.Policy{AttemptTimeout: time.Second}
	untimed backoff.Policy
	hedged  hedge.Hedge
)

func get(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.com", nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

func value(ctx context.Context) (*http.Response, error) {
	return backoff.DoValue(ctx, timed, func(ctx context.Context) (*http.Response, error) { // want `this http.Response outlives its attempt, and reading it fails`
		resp, err := get(ctx)
		if err == nil && resp.StatusCode >= 500 {
			resp.Body.Close()
			return nil, io.ErrUnexpectedEOF
		}
		return resp, err
	})
}

func byName(ctx context.Context) (*http.Response, error) {
	return backoff.DoValue(ctx, timed, get) // want `this http.Response outlives`
}

func rows(ctx context.Context, db *sql.DB) (*sql.Rows, error) {
	return backoff.DoValue(ctx, timed, func(ctx context.Context) (*sql.Rows, error) { // want `this sql.Rows outlives`
		return db.QueryContext(ctx, "SELECT 1")
	})
}

func hedging(ctx context.Context) (*http.Response, error) {
	return hedge.Value(ctx, &hedged, get, nil) // want `this http.Response outlives`
}

func returned(ctx context.Context) (*http.Response, error) {
	r := timed.Start(ctx)
	for ctx := range r.Attempts() {
		resp, err := get(ctx)
		if err == nil {
			return resp, nil // want `this http.Response outlives`
		}
		r.Fail(err)
	}
	return nil, r.Err()
}

func captured(ctx context.Context) ([]byte, error) {
	var resp *http.Response
	err := timed.Do(ctx, func(ctx context.Context) (err error) {
		resp, err = get(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body) // want `this http.Response outlives`
}

func capturedRows(ctx context.Context, db *sql.DB) error {
	var rows *sql.Rows
	r := timed.Start(ctx)
	for ctx := range r.Attempts() {
		var err error
		if rows, err = db.QueryContext(ctx, "SELECT 1"); err == nil {
			break
		}
		r.Fail(err)
	}
	for rows.Next() { // want `this sql.Rows outlives`
	}
	return rows.Err()
}

// Those below are right.

func withoutTimeout(ctx context.Context) (*http.Response, error) {
	return backoff.DoValue(ctx, untimed, get)
}

func withDiscard(ctx context.Context) (*http.Response, error) {
	return hedge.Value(ctx, &hedged, get, func(r *http.Response) { r.Body.Close() })
}

func read(ctx context.Context) ([]byte, error) {
	return backoff.DoValue(ctx, timed, func(ctx context.Context) ([]byte, error) {
		resp, err := get(ctx)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	})
}

func onlyStatus(ctx context.Context) (*http.Response, error) {
	return backoff.DoValue(ctx, timed, func(ctx context.Context) (*http.Response, error) {
		resp, err := get(ctx)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		return resp, nil
	})
}

func statusAfter(ctx context.Context) int {
	var resp *http.Response
	err := timed.Do(ctx, func(ctx context.Context) (err error) {
		resp, err = get(ctx)
		return err
	})
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func otherContext(ctx context.Context, req *http.Request) (*http.Response, error) {
	return backoff.DoValue(ctx, timed, func(context.Context) (*http.Response, error) {
		return http.DefaultClient.Do(req)
	})
}
