-- A circuit is a hash with these fields:
--
--   g   generation
--   o   until when it is open, in ms; missing: it is closed
--   n   openings
--   h   the holder of the lease
--   l   until when the lease is held
--   e   the latest of all these times
--   w   for how long, at most, something was meant to last, in ms
--   v:  and a name: until when the vote of this voter counts
--
-- Numbers are written as text, because Redis would write large ones as 1e+15. What
-- ends later than it can, since the clock was set back, is over.
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
