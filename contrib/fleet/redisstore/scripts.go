package redisstore

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// The texts of the scripts. Each of them is run after that of its record, which is
// circuit or account.
var (
	//go:embed circuit.lua
	circuitText string
	//go:embed trip.lua
	tripText string
	//go:embed lease.lua
	leaseText string
	//go:embed reset.lua
	resetText string

	//go:embed account.lua
	accountText string
	//go:embed take.lua
	takeText string
	//go:embed give.lua
	giveText string
)

// The scripts: one for each method of the store.
var (
	load  = redis.NewScript(circuitText + "return answer(nil)")
	trip  = redis.NewScript(circuitText + tripText)
	lease = redis.NewScript(circuitText + leaseText)
	reset = redis.NewScript(circuitText + resetText)
	take  = redis.NewScript(accountText + takeText)
	give  = redis.NewScript(accountText + giveText)
)
