package migrate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A pacer does what rclone's lib/pacer says that it does with its calculator
// for Google Drive and no limit of connections: one token for all calls, which
// a call takes while the sleep time is not 0, and which comes back after the
// sleep time. The sleep time follows from the failures in a row of all calls.
// rclone itself would bring 250 modules.
type pacer struct {
	token chan struct{}
	tries int

	mu       sync.Mutex
	failures int // in a row
	sleep    time.Duration
}

func newPacer(tries int) *pacer {
	p := &pacer{token: make(chan struct{}, 1), tries: tries}
	p.token <- struct{}{}
	return p
}

func (p *pacer) Call(fn func() (bool, error)) (err error) {
	for again, left := true, p.tries; again && left > 0; left-- {
		p.pace()
		again, err = fn()
		p.learn(again)
	}
	return err
}

func (p *pacer) sleepTime() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sleep
}

func (p *pacer) pace() {
	if p.sleepTime() > 0 {
		<-p.token
		time.AfterFunc(p.sleepTime(), func() { p.token <- struct{}{} })
	}
}

func (p *pacer) learn(again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if !again {
		p.failures = 0
	}
	p.sleep = 0
	if p.failures > 0 {
		p.sleep = time.Second<<(min(p.failures, 5)-1) + rand.N(time.Second)
	}
}

func rcloneCall(ctx context.Context, p *pacer, save operation) error {
	err := p.Call(func() (bool, error) {
		err := save(ctx)
		return errors.Is(err, errBusy), err
	})
	return err
}
