package patience

func (l *Line) InFlight() int { return int(l.running.now()) }

func (l *Line) Most() int { return int(l.most()) }
