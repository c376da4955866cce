package nowait

import (
	"errors"
	"log"
	"syscall"
	"time"
)

func decodes(get func() (string, error), decode func(string) error) error {
	for {
		v, err := get()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		if err := decode(v); err != nil { // want "failure of decode"
			log.Print(err)
			continue
		}
		return nil
	}
}

type waiter struct{}

func (*waiter) Ongoing() bool { return true }
func (*waiter) Wait()         {}

func watches(w *waiter, watch func() error) {
	for w.Ongoing() { // want "calls w.Wait"
		if err := watch(); err != nil {
			continue
		}
	}
}

func waits(w *waiter, watch func() error) {
	for w.Ongoing() {
		if watch() == nil {
			return
		}
		w.Wait()
	}
}

func interrupted(read func() error) error {
	for {
		err := read()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func renews(call, renew func() error) error {
	for {
		err := call()
		if err == nil {
			return nil
		}
		if err.Error() == "expired" {
			_ = renew()
			continue
		}
		time.Sleep(time.Second)
	}
}

func exceptTheLast(call func() error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		if i < 2 {
			time.Sleep(time.Second)
		}
	}
	return err
}
