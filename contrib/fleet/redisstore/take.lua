-- Grants tokens to a block. Follows account.lua.
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
return n
