-- Sends the requests of the file REQUESTS in turn, over and over. Each line is a path and, after a space, a body.
dofile(os.getenv("LOAD") .. "/counters.lua")
local headers = { ["Authorization"] = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json" }
local requests, current = {}, 0

function init()
  for line in io.lines(os.getenv("REQUESTS")) do
    local path, body = line:match("(%S+) ?(.*)")
    requests[#requests + 1] = wrk.format("POST", path, headers, body)
  end
end

function request()
  current = current % #requests + 1
  return requests[current]
end

function response(status)
  count(status == 200)
end
