package redisstore

import "github.com/redis/go-redis/v9"

// A circuit is a hash with these fields:
//
//	g   generation
//	o   until when it is open, in ms; missing: it is closed
//	n   openings
//	h   the holder of the lease
//	l   until when the lease is held
//	e   the latest of all these times
//	w   for how long, at most, something was meant to last, in ms
//	v:  and a name: until when the vote of this voter counts
//
// Numbers are written as text, because Redis would write large ones as 1e+15. What
// ends later than it can, since the clock was set back, is over.
const circuit = `
local key = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local known = redis.call('HMGET', key, 'g', 'o', 'n', 'h', 'l', 'e', 'w')
local widest = tonumber(known[7]) or 0
local latest = known[7] and now + widest or math.huge
local generation = tonumber(known[1]) or 0
local opened = tonumber(known[2])
local openings = tonumber(known[3]) or 0
local holder = known[4]
local leased = tonumber(known[5]) or 0
local ends = tonumber(known[6]) or 0
if opened and opened > latest then opened = now end
if leased > latest then leased = 0 end
if ends > latest then ends = latest end

local function text(n) return string.format('%.0f', n) end

local function holds(by) return holder == by and leased > now end

local function keep(till, linger)
	ends, widest = math.max(ends, till), math.max(widest, till - now)
	redis.call('HSET', key, 'e', text(ends), 'w', text(widest))
	redis.call('PEXPIRE', key, text(ends - now + linger))
end

local function answer(by)
	if not opened then return {generation, 0, 0, 0, 0, 0} end
	return {generation, 1, math.max(0, opened - now), openings, math.max(0, leased - now), holds(by) and 1 or 0}
end
`

// load returns a circuit.
var load = redis.NewScript(circuit + `
return answer(nil)`)

// trip votes for opening a circuit, or opens it.
var trip = redis.NewScript(circuit + `
local by, voter, seen = ARGV[1], 'v:' .. ARGV[2], tonumber(ARGV[3])
local open, again, quorum, linger = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if opened and opened > now or generation > seen then return answer(by) end
if not holds(by) then
	local votes, all = 1, redis.call('HGETALL', key)
	for i = 1, #all, 2 do
		if string.sub(all[i], 1, 2) == 'v:' and all[i] ~= voter then
			local till = tonumber(all[i + 1])
			if till > now and till <= latest then votes = votes + 1 else redis.call('HDEL', key, all[i]) end
		end
	end
	if votes < quorum then
		redis.call('HSET', key, voter, text(now + open))
		keep(now + open, linger)
		return answer(by)
	end
end
generation, opened, openings, holder, leased, ends, widest = seen + 1, now + open, again, false, 0, 0, 0
redis.call('DEL', key)
redis.call('HSET', key, 'g', text(generation), 'o', text(opened), 'n', text(openings))
keep(opened, linger)
return answer(by)`)

// lease gives, extends or ends the lease of a half-open circuit.
var lease = redis.NewScript(circuit + `
local by, d, linger = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not opened or opened > now or leased > now and holder ~= by then return answer(by) end
if d > 0 then
	holder, leased = by, now + d
	redis.call('HSET', key, 'h', holder, 'l', text(leased))
	keep(leased, linger)
else
	holder, leased = false, 0
	redis.call('HDEL', key, 'h', 'l')
end
return answer(by)`)

// reset closes a circuit for the holder of its lease.
var reset = redis.NewScript(circuit + `
local by, seen, linger = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if opened and generation == seen and holds(by) then
	generation, opened, ends, widest = generation + 1, nil, 0, 0
	redis.call('DEL', key)
	redis.call('HSET', key, 'g', text(generation))
	keep(now, linger)
end
return answer(by)`)

// An account is a sorted set of blocks by the time at which they end, and a
// hash of their tokens with the sum in field t, and the longest window in w. If
// the set is lost, no tokens are out. No block lasts for longer than w, also if
// the clock was set back. A block may have no tokens left, or none that are known, because
// Redis evicts the set and the hash apart.
const account = `
local blocks, tokens = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, block in ipairs(redis.call('ZRANGEBYSCORE', blocks, '-inf', string.format('%.0f', now))) do
	local left = tonumber(redis.call('HGET', tokens, block)) or 0
	redis.call('ZREM', blocks, block)
	redis.call('HDEL', tokens, block)
	if left > 0 then redis.call('HINCRBY', tokens, 't', -left) end
end
if redis.call('EXISTS', blocks) == 0 then redis.call('DEL', tokens) end
local widest = tonumber(redis.call('HGET', tokens, 'w'))
local latest = string.format('%.0f', now + (widest or 0))
for _, block in ipairs(widest and redis.call('ZRANGEBYSCORE', blocks, '(' .. latest, '+inf') or {}) do
	redis.call('ZADD', blocks, latest, block)
end
local block = 'b:' .. ARGV[1]
local n = tonumber(ARGV[2])
local has = tonumber(redis.call('HGET', tokens, block))
`

// take grants tokens to a block.
var take = redis.NewScript(account + `
local allowance, window = tonumber(ARGV[3]), tonumber(ARGV[4])
if has then return has end
n = math.min(n, allowance - (tonumber(redis.call('HGET', tokens, 't')) or 0))
if n <= 0 then return 0 end
redis.call('ZADD', blocks, string.format('%.0f', now + window), block)
redis.call('HSET', tokens, block, n)
redis.call('HINCRBY', tokens, 't', n)
widest = math.max(window, widest or 0)
redis.call('HSET', tokens, 'w', string.format('%.0f', widest))
local ttl = string.format('%.0f', widest + 1000)
redis.call('PEXPIRE', blocks, ttl)
redis.call('PEXPIRE', tokens, ttl)
return n`)

// give takes tokens back from a block.
var give = redis.NewScript(account + `
n = math.min(n, has or 0)
if n > 0 then
	redis.call('HINCRBY', tokens, block, -n)
	redis.call('HINCRBY', tokens, 't', -n)
end
return 0`)
