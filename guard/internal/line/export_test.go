package line

func (l *Line) InFlight() int { return int(l.running.now()) }

func (l *Line) Most() int { return int(l.most()) }

// SampledAfter returns how many of the next attempts are measured after so many
// others.
func SampledAfter(others int64, next int) (sampled int) {
	var c counter
	c.both.Store(others * begun)
	for range next {
		c.begin()
		if _, ok := c.end(); ok {
			sampled++
		}
	}
	return sampled
}
