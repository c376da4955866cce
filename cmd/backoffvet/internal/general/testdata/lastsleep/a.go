package lastsleep

import (
	"context"
	"time"
)

func sleeps(call func() error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(time.Second) // want "after its last attempt"
	}
	return err
}

func ofATable(call func() error, delays []time.Duration) (err error) {
	for _, d := range delays {
		if err = call(); err != nil {
			time.Sleep(d) // want "after its last attempt"
			continue
		}
		break
	}
	return err
}

func onceMore(call func() error) error {
	for range 3 {
		if call() == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return call()
}

func leaves(call func() error, most int) error {
	var err error
	for i := 0; i < most; i++ {
		if err = call(); err == nil {
			break
		}
		last := i == most-1
		if last {
			break
		}
		time.Sleep(time.Second)
	}
	return err
}

func before(call func() error) error {
	var err error
	for i := range 3 {
		if i > 0 {
			time.Sleep(time.Second)
		}
		if err = call(); err == nil {
			return nil
		}
	}
	return err
}

func isShort(call func() error) error {
	var err error
	for range 3 {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func capsItsDelay(dial func() error) (err error) {
	for i := 0; i < 10; i++ {
		if err = dial(); err == nil {
			return nil
		}
		d := time.Second << i
		if d > time.Minute {
			d = time.Minute
		}
		if i%2 == 0 {
			println(i)
		}
		time.Sleep(d) // want "after its last attempt"
	}
	return err
}

func looksAtItsCountTooLate(dial func() error, d time.Duration) error {
	for attempt := 1; ; attempt++ {
		err := dial()
		if err == nil {
			return nil
		}
		time.Sleep(d) // want "after its last attempt"
		if attempt >= 5 {
			return err
		}
	}
}

func countsInside(dial func() error) (err error) {
	n := 0
	for n < 5 {
		if err = dial(); err == nil {
			return nil
		}
		n++
		time.Sleep(time.Minute) // want "after its last attempt"
	}
	return err
}

func tableWithASentinel(dial func() error) (err error) {
	for _, d := range []time.Duration{time.Second, time.Minute, 0} {
		if err = dial(); err == nil {
			return nil
		}
		time.Sleep(d)
	}
	return err
}

func sentinelThatLeaves(dial func() error, delays []time.Duration) (err error) {
	for _, d := range delays {
		if err = dial(); err == nil || d == 0 {
			return err
		}
		time.Sleep(d)
	}
	return err
}

func skipsTheLast(dial func() error, most int) (err error) {
	for i := range most {
		if err = dial(); err == nil {
			return nil
		}
		if i == most-1 {
			continue
		}
		time.Sleep(time.Second)
	}
	return err
}

func aSleepThatFails(ctx context.Context, dial func() error, sleep func(context.Context, time.Duration) error) error {
	for i := 0; ; i++ {
		err := dial()
		if err == nil || i == 4 {
			return err
		}
		if err := sleep(ctx, time.Second<<i); err != nil {
			return err
		}
	}
}

func aWaitThatIsToldTheDelay(ctx context.Context, dial func() error, waitFor func(context.Context, time.Duration) bool) error {
	runs := 0
	for {
		err := dial()
		if err == nil {
			return nil
		}
		runs++
		delay := time.Second << runs
		if !waitFor(ctx, delay) {
			return err
		}
	}
}

func aWaitInTheCondition(ctx context.Context, dial func() error, waitFor func(context.Context, time.Duration) bool) error {
	tries := 0
	for {
		tries++
		err := dial()
		if err != nil && (tries <= 3 || waitFor(ctx, time.Second<<tries)) {
			continue
		}
		return err
	}
}
