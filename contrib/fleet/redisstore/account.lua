-- An account is a sorted set of blocks by the time at which they end, and a hash of
-- their tokens with the sum in field t, and the longest window in w. If the set is
-- lost, no tokens are out. No block lasts for longer than w, also if the clock was set
-- back. A block may have no tokens left, or none that are known, because Redis evicts
-- the set and the hash apart.
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
