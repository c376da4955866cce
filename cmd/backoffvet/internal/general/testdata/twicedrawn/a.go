package twicedrawn

import (
	"log"
	"time"
)

type schedule struct{}

func (*schedule) NextBackOff() time.Duration { return 0 }
func (*schedule) Reset()                     {}

func logs(s *schedule, call func() error) {
	for {
		if call() == nil {
			return
		}
		log.Print(s.NextBackOff())
		time.Sleep(s.NextBackOff()) // want "drawn twice"
	}
}

func once(s *schedule, call func() error) {
	for {
		if call() == nil {
			return
		}
		d := s.NextBackOff()
		log.Print(d)
		time.Sleep(d)
	}
}

func anew(s *schedule, call func() error) {
	for {
		if call() == nil {
			return
		}
		log.Print(s.NextBackOff())
		s.Reset()
		time.Sleep(s.NextBackOff())
	}
}
