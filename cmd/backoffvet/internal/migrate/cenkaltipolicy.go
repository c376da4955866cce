package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"time"
)

// plan makes the policy of a call, and finds a place for it.
func (c *cenkalti) plan(r *retryCall) {
	p, err := c.policy(r)
	if err != nil {
		r.stays2(err.Error())
		return
	}
	r.literal = p.String()
	s := &r.settings
	if r.ctx != nil && !encloses(r.call, r.ctx) && !r.f.movable(r.ctx, r.call.Pos(), r.until()) {
		r.stays("the context of its backoff may change before the call")
	}
	if s.v == nil || r.movesToCall() {
		return
	}
	r.at = s.config[len(s.config)-1]
	switch {
	case len(s.late) > 0 && s.late[0].Pos() < r.at.End():
		r.stays("its backoff is set only on a condition")
	case len(s.consumers) > 1 && r.varies():
		r.stays("several calls vary its backoff")
	case !r.movesToVariable():
		r.stays("its settings may change before the call")
	}
}

// until is where the variables that a moved expression uses must not have changed: the call, or the
// end of the function if the call may be made again.
func (r *retryCall) until() token.Pos {
	s := &r.settings
	if len(s.config) > 0 && r.f.parents[r.f.statement(r.call)] == r.f.parents[s.config[0]] {
		return r.call.Pos()
	}
	return r.f.function(r.call).End()
}

// movesToCall reports whether the policy may be made where the call is.
func (r *retryCall) movesToCall() bool {
	s := &r.settings
	if len(s.late) > 0 || len(s.consumers) > 1 {
		return false
	}
	stmt := r.f.statement(r.call)
	for _, e := range s.expressions() {
		if !encloses(r.call, e) && !r.f.movable(e, stmt.Pos(), r.until()) {
			return false
		}
	}
	return true
}

// movesToVariable reports whether the policy may be made where the program made its backoff.
func (r *retryCall) movesToVariable() bool {
	if r.before != "" || r.notify != nil && !r.f.movable(r.notify, r.at.Pos(), r.call.Pos()) {
		return false
	}
	s := &r.settings
	for _, e := range s.expressions() {
		if !encloses(r.at, e) && !r.f.movable(e, r.at.Pos(), r.at.Pos()) && !r.f.contiguous(e, r.at, s.config) {
			return false
		}
	}
	return true
}

// varies reports whether the call has settings besides those of its backoff.
func (r *retryCall) varies() bool {
	return r.notify != nil || slices.ContainsFunc(r.settings.expressions(), func(e ast.Expr) bool { return encloses(r.call, e) })
}

// placed puts the policy of a call where the plan says, and returns how the call names it.
func (c *cenkalti) placed(r *retryCall) string {
	f, s := r.f, &r.settings
	r.keepComments()
	if r.before != "" {
		f.insert(f.statement(r.call).Pos(), r.before)
	}
	for _, stmt := range s.inert {
		f.removeStmt(stmt)
	}
	if r.at == nil {
		for _, stmt := range s.config {
			f.removeStmt(stmt)
		}
		return r.beforeCall()
	}
	if f.gone(r.at.Pos()) {
		return s.v.Name() // another call has it, too
	}
	for _, stmt := range s.config {
		if stmt != r.at {
			f.removeStmt(stmt)
		}
	}
	for _, late := range s.late {
		f.replace(late.Sel.Pos(), late.Sel.End(), "MaxElapsed")
	}
	f.replace(r.at.Pos(), r.at.End(), s.v.Name()+" := "+r.literal)
	return s.v.Name()
}

// beforeCall puts the policy before the statement of the call.
func (r *retryCall) beforeCall() string {
	uses := append(r.settings.expressions(), r.notify)
	stmt, ok := r.f.statement(r.call).(ast.Stmt)
	if r.settings.v == nil || !ok || !r.f.meanAll(uses, stmt) {
		return r.f.place(r.call, "policy", r.literal, uses)
	}
	name := r.settings.v.Name()
	r.f.insert(stmt.Pos(), name+" := "+r.literal+"\n")
	return name
}

// keepComments puts the comments among the arguments that go away before the statement.
func (r *retryCall) keepComments() {
	from := r.op.arg.End()
	for _, group := range r.f.syntax.Comments {
		if from < group.Pos() && group.End() < r.call.Rparen && (r.notify == nil || !encloses(r.notify, group)) {
			r.f.insert(r.f.statement(r.call).Pos(), r.f.source(group)+"\n")
		}
	}
}

// policy is the policy with the settings of a call.
func (c *cenkalti) policy(r *retryCall) (*policy, error) {
	p := new(policy)
	if r.settings.kind == "StopBackOff" {
		p.set("MaxAttempts", "1")
		return p, c.observe(r, p)
	}
	p.set("MaxAttempts", "%s", c.attempts(r))
	if err := c.elapsed(r, p); err != nil {
		return nil, err
	}
	if err := c.schedule(r, p); err != nil {
		return nil, err
	}
	if c.marksWaits(r) {
		p.set("MaxRetryAfter", "-1")
	}
	p.retryAll()
	return p, c.observe(r, p)
}

// attempts is MaxAttempts.
func (c *cenkalti) attempts(r *retryCall) string {
	f, s := r.f, &r.settings
	const many = 1 << 31
	if s.retries != nil {
		if n, ok := f.number(s.retries); ok && n >= many {
			return "-1"
		}
		return f.plusOne(s.retries)
	}
	if s.tries == nil {
		return "-1"
	}
	if n, ok := f.number(s.tries); ok {
		if n == 0 || n >= many {
			return "-1"
		}
		return f.source(f.unconverted(s.tries))
	}
	return gen("§cmp.Or(%s, -1)", f.asInt(f.unconverted(s.tries)))
}

// elapsed sets MaxElapsed.
func (c *cenkalti) elapsed(r *retryCall, p *policy) error {
	e, isDefault := r.settings.elapsed, c.options || r.settings.kind == "ExponentialBackOff" && !r.settings.whole
	if !c.options {
		e = r.settings.fields["MaxElapsedTime"]
	}
	if e == nil {
		if isDefault {
			p.set("MaxElapsed", "%s", duration(15*time.Minute))
		}
		return nil
	}
	if n, ok := r.f.number(e); ok && n == 0 {
		return nil
	} else if ok && n < 0 {
		return fmt.Errorf("its time is negative")
	}
	text, err := r.f.expression(e, c.path)
	p.set("MaxElapsed", "%s", text)
	return err
}

// schedule sets Schedule and Jitter.
func (c *cenkalti) schedule(r *retryCall, p *policy) error {
	switch r.settings.kind {
	case "", "ExponentialBackOff":
		return c.exponential(r, p)
	case "ConstantBackOff":
		e := r.settings.fields["Interval"]
		if e == nil {
			return fmt.Errorf("its backoff has no Interval")
		}
		text, err := r.f.expression(e, c.path)
		p.set("Schedule", "§backoff.Constant(%s)", text)
		p.set("Jitter", "§backoff.NoJitter")
		return err
	case "ZeroBackOff":
		p.set("Schedule", "§backoff.Constant(0)")
		return nil
	}
	return fmt.Errorf("its backoff is a %s", r.settings.kind)
}

// exponential sets Schedule and Jitter to those of an ExponentialBackOff.
func (c *cenkalti) exponential(r *retryCall, p *policy) error {
	initial, err := c.field(r, "InitialInterval", duration(500*time.Millisecond), 1)
	if err != nil {
		return err
	}
	multiplier, err := c.field(r, "Multiplier", "1.5", 1)
	if err != nil {
		return err
	}
	limit, err := c.field(r, "MaxInterval", duration(time.Minute), 1)
	if err != nil {
		return err
	}
	switch first, most, known := c.bounds(r); {
	case !known:
		limit = fmt.Sprintf("max(%s, %s)", initial, limit) // less than Initial is invalid
	case first > most:
		return fmt.Errorf("its MaxInterval is below its InitialInterval")
	}
	p.set("Schedule", "§backoff.Exponential{Initial: %s, Multiplier: %s, Max: %s}", initial, multiplier, limit)
	return c.jitter(r, p)
}

// bounds are the first and the longest delay, if they are constants.
func (c *cenkalti) bounds(r *retryCall) (first, most float64, known bool) {
	first, most, known = 5e8, 6e10, true
	for name, to := range map[string]*float64{"InitialInterval": &first, "MaxInterval": &most} {
		if e := r.settings.fields[name]; e != nil {
			n, ok := r.f.number(e)
			*to, known = n, known && ok
		}
	}
	return first, most, known
}

// field is the text of a field of an ExponentialBackOff, which must be at least least.
func (c *cenkalti) field(r *retryCall, name, otherwise string, least float64) (string, error) {
	e := r.settings.fields[name]
	if e == nil {
		if r.settings.whole {
			return "", fmt.Errorf("its %s is not set", name)
		}
		return otherwise, nil
	}
	switch n, ok := r.f.number(e); {
	case ok && n < least:
		return "", fmt.Errorf("its %s is %s, which has no equivalent", name, r.f.source(e))
	case !ok:
		r.note("if %s is 0, it means the default here, and not %s: 0", r.f.source(e), name)
	}
	return r.f.expression(e, c.path)
}

// jitter sets Jitter to what RandomizationFactor says.
func (c *cenkalti) jitter(r *retryCall, p *policy) error {
	e := r.settings.fields["RandomizationFactor"]
	factor := 0.5
	if e != nil {
		n, ok := r.f.number(e)
		if !ok {
			text, err := r.f.expression(e, c.path)
			p.set("Jitter", "§backoff.UniformJitter(1-(%[1]s), 1+(%[1]s))", text)
			return err
		}
		factor = n
	} else if r.settings.whole {
		factor = 0
	}
	switch {
	case factor < 0 || factor > 1:
		return fmt.Errorf("its RandomizationFactor is %s, which has no equivalent", decimal(factor))
	case factor == 0:
		p.set("Jitter", "§backoff.NoJitter")
	default:
		p.set("Jitter", "§backoff.UniformJitter(%s, %s)", decimal(1-factor), decimal(1+factor))
	}
	return nil
}
