package nocap

import (
	"math/rand/v2"
	"time"
)

func doubles(call func() error) {
	delay := time.Second
	for call() != nil {
		time.Sleep(rand.N(delay)) // want "without a bound"
		delay *= 2
	}
}

func shifts(call func() error) {
	for i := 0; call() != nil; i++ {
		time.Sleep(time.Second << i) // want "without a bound"
	}
}

func capped(call func() error) {
	delay := time.Second
	for call() != nil {
		time.Sleep(delay)
		delay = min(2*delay, time.Minute)
	}
}

func gives(call func() error) {
	delay := time.Second
	for call() != nil {
		if delay > time.Hour {
			return
		}
		time.Sleep(delay)
		delay *= 2
	}
}

func few(call func() error) {
	most := 5
	delay := time.Second
	for i := 0; i < most; i++ {
		if call() == nil {
			return
		}
		time.Sleep(delay)
		delay *= 2
	}
}
