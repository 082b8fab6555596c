-- Claims a name and releases it over etcd's JSON gateway. Without LEASE each claim has a lease of its own, as workers
-- need whose locks must not depend on each other: grant, put if absent, revoke. With LEASE all claims share that one:
-- put if absent, delete.
dofile(os.getenv("LOAD") .. "/counters.lua")
local shared = os.getenv("LEASE")
local run, number = os.getenv("RUN"), 0
local headers = { ["Content-Type"] = "application/json" }

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local function base64(text)
  local out = {}
  for start = 1, #text, 3 do
    local a, b, c = text:byte(start, start + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    for place = 0, 3 do
      local six = math.floor(bits / 64 ^ (3 - place)) % 64 + 1
      out[#out + 1] = (place == 2 and not b or place == 3 and not c) and "=" or alphabet:sub(six, six)
    end
  end
  return table.concat(out)
end
local value = base64("host=runner-7")

local function post(path, body)
  return wrk.format("POST", path, headers, body)
end

local function new_queue()
  return { first = 1, last = 0 }
end

local function push(queue, item)
  queue.last = queue.last + 1
  queue[queue.last] = item
end

local function pop(queue)
  local item = queue[queue.first]
  queue[queue.first] = nil
  queue.first = queue.first + 1
  return item
end

-- Requests to send next, and what was claimed: keys with a shared lease, leases otherwise. The response to a put does
-- not contain its key, so a put that succeeded releases a claim made `lag` requests earlier, whose response has
-- arrived for certain, since each connection has one request in flight.
local pending, claimed = new_queue(), new_queue()
local lag = 4 * tonumber(os.getenv("CONNECTIONS"))

local function claim(lease)
  number = (number + 1) % 5000
  local key = base64("job-" .. run .. "-" .. number)
  push(claimed, shared and key or lease)
  return post("/v3/kv/txn",
    '{"compare":[{"key":"' .. key .. '","target":"CREATE","createRevision":"0"}],"success":[{"requestPut":{"key":"' ..
    key .. '","value":"' .. value .. '","lease":"' .. lease .. '"}}],"failure":[{"requestRange":{"key":"' .. key .. '"}}]}')
end

local function release()
  if shared then
    return post("/v3/kv/deleterange", '{"key":"' .. pop(claimed) .. '"}')
  end
  return post("/v3/lease/revoke", '{"ID":"' .. pop(claimed) .. '"}')
end

function request()
  if pending.first <= pending.last then
    return pop(pending)()
  elseif shared then
    return claim(shared)
  end
  return post("/v3/lease/grant", '{"TTL":"60"}')
end

function response(status, _, body)
  local put = body:find('"responses"', 1, true)
  local put_succeeded = body:find('"succeeded":true', 1, true)
  count(status == 200 and (put_succeeded or not put))
  if status ~= 200 then
    return
  elseif body:find('"TTL"', 1, true) then
    local lease = body:match('"ID":"(%d+)"')
    push(pending, function() return claim(lease) end)
  elseif put_succeeded and claimed.last - claimed.first > lag then
    push(pending, release)
  end
end
