package hedge

// ErrLost is the cause of the contexts of attempts that lost.
var ErrLost = errLost
