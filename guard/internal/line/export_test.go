package line

func (l *Line) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flow.inFlight
}
