package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v5"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// Prometheus Alertmanager, v0.34.0: the retry stage of a notification is a loop
// over a ticker, and the webhook of the event recorder one over a counter.

var alertmanager = []move{
	{
		program: "alertmanager", sites: 1, place: "Notification, refused at once until the deadline",
		script: times(1, answer{status: 503}), deadline: 5 * time.Minute, before: tickingNotification, here: notification,
		was:    outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, after: [2]float64{0, 90}, sees: "last failure"},
		is:     outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, after: exactly(0), sees: "last failure, deadline"},
		better: []reason{noLastWait, saysWhy},
	},
	{
		program: "alertmanager", place: "Notification, fails after 10 s each",
		script: append(times(4, answer{status: 503, took: 10 * time.Second}), answer{status: 200}), before: tickingNotification, here: notification,
		was:    outcome{attempts: exactly(5), gaps: exactly(0), sees: "done"},
		is:     outcome{attempts: exactly(5), gaps: [2]float64{0.25, 2.54}, sees: "done"},
		better: []reason{slowIsSpaced},
	},
	{
		program: "alertmanager", place: "Notification, 429 with Retry-After: 30",
		script: []answer{{status: 429, after: 30 * time.Second}, {status: 200}}, before: tickingNotification, here: notification,
		was:    outcome{attempts: exactly(2), gaps: [2]float64{0.25, 0.75}, sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"},
		better: []reason{obeys},
	},
	{
		program: "alertmanager", place: "Notification, a final response",
		script: times(1, answer{status: 400}), before: tickingNotification, here: notification,
		was: outcome{attempts: exactly(1), sees: "last failure"},
	},
	{
		program: "alertmanager", place: "Notification, the program shuts down after 2 s",
		script: times(1, answer{status: 503}), cancel: 2 * time.Second, before: tickingNotification, here: notification,
		was:    outcome{attempts: [2]float64{3, 4}, gaps: [2]float64{0.25, 1.37}, sees: "last failure"},
		is:     outcome{attempts: [2]float64{3, 4}, gaps: [2]float64{0.25, 1.37}, sees: "last failure, cancelled, cause"},
		better: []reason{saysWhy},
	},
	{
		program: "alertmanager", sites: 1, place: "Event webhook, fails three times",
		script: times(1, answer{status: 503}), before: countedWebhook, here: webhook,
		was:    outcome{attempts: exactly(3), gaps: [2]float64{0.5, 1}, sees: "last failure"},
		is:     outcome{attempts: exactly(3), gaps: [2]float64{0.5, 1}, sees: "last failure, limit"},
		better: []reason{saysWhy},
	},
	{
		program: "alertmanager", place: "Event webhook, 503 with Retry-After: 5",
		script: []answer{{status: 503, after: 5 * time.Second}, {status: 200}}, before: countedWebhook, here: webhook,
		was:    outcome{attempts: exactly(2), gaps: exactly(0.5), sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{5, 5.5}, sees: "done"},
		better: []reason{obeys},
	},
	{
		program: "alertmanager", place: "Event webhook, hangs while the program shuts down after 2 s",
		script: times(1, answer{status: 503, took: 9 * time.Second}), cancel: 2 * time.Second, before: countedWebhook, here: webhook,
		was:    outcome{attempts: exactly(1), after: exactly(7), sees: "last failure"},
		is:     outcome{attempts: exactly(1), sees: "cancelled, cause"},
		better: []reason{endsWithContext},
	},
}

// notify is one notification by HTTP. It tells whether it may be sent again.
func notify(ctx context.Context, r *remote) (bool, error) {
	resp, err := r.post(ctx, &http.Client{Transport: r})
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	return resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("unexpected status %d", resp.StatusCode)
}

func tickingNotification(ctx context.Context, r *remote) (string, error) {
	ticker := cenkalti.NewTicker(cenkalti.NewExponentialBackOff())
	defer ticker.Stop()
	var last error
	for sent := 0; ; {
		if err := ctx.Err(); err != nil {
			if last == nil {
				last = err
			}
			return "", fmt.Errorf("given up after %d notifications: %w", sent, last)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			again, err := notify(ctx, r)
			sent++
			switch {
			case err == nil:
				return "done", nil
			case !again:
				return "", fmt.Errorf("refused after %d notifications: %w", sent, err)
			case ctx.Err() == nil:
				last = err
			}
		}
	}
}

// cenkaltisDefault are the waits of cenkalti's NewExponentialBackOff.
var cenkaltisDefault = backoff.Policy{
	MaxAttempts: -1,
	Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute},
	Jitter:      backoff.UniformJitter(0.5, 1.5),
}

func notification(ctx context.Context, r *remote) (string, error) {
	policy := cenkaltisDefault
	policy.Classify = notifiable
	err := policy.Do(ctx, func(ctx context.Context) error {
		resp, err := r.post(ctx, &http.Client{Transport: r})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp, backoffhttp.Status2xx)
	})
	if err != nil {
		return "", fmt.Errorf("not sent: %w", err)
	}
	return "done", nil
}

// notifiable classifies as notify does.
func notifiable(err error) backoff.Class {
	status, ok := errors.AsType[*backoffhttp.StatusError](err)
	switch {
	case !ok || status.Code/100 == 5:
		return backoff.ClassRetryable
	case status.Code == http.StatusTooManyRequests:
		return backoff.ClassThrottled
	}
	return backoff.ClassPermanent
}

func countedWebhook(ctx context.Context, r *remote) (string, error) {
	client := &http.Client{Transport: r, Timeout: 10 * time.Second}
	var last error
	for attempt := range 3 {
		resp, err := r.post(context.Background(), client)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return "done", nil
			}
			err = fmt.Errorf("returned %d", resp.StatusCode)
		}
		last = err
		if attempt == 2 {
			break
		}
		select {
		case <-time.After(min(500*time.Millisecond<<attempt, 30*time.Second)):
		case <-ctx.Done(): // a channel of the program, closed when it ends
			return "", fmt.Errorf("dropped at the end of the program: %w", last)
		}
	}
	return "", fmt.Errorf("dropped: %w", last)
}

func webhook(ctx context.Context, r *remote) (string, error) {
	client := &http.Client{Transport: r, Timeout: 10 * time.Second}
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond},
		Jitter:      backoff.NoJitter,
		Classify:    backoff.RetryIf(func(error) bool { return true }),
	}
	err := policy.Do(ctx, func(ctx context.Context) error {
		resp, err := r.post(ctx, client)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp, backoffhttp.Status2xx)
	})
	if err != nil {
		return "", fmt.Errorf("dropped: %w", err)
	}
	return "done", nil
}
