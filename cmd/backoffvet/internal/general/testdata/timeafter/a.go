package timeafter

import "time"

func idles(events <-chan string, f func(string)) {
	for {
		select {
		case e := <-events:
			f(e)
		case <-time.After(time.Hour): // want "leaves a timer behind"
			return
		}
	}
}

func leaves(stop <-chan bool) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Hour):
		}
	}
}

func inAFunction(events <-chan string, f func(func())) {
	for range events {
		f(func() {
			select {
			case <-events:
			case <-time.After(time.Hour):
			}
		})
	}
}

type server struct{ closeCh chan bool }

func closes(s *server, events <-chan string, running func() bool) {
	for running() {
		select {
		case <-s.closeCh:
		case <-time.After(time.Hour):
			return
		}
	}
}
